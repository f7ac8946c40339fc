// The job that the kernels of this process work in: the table that colla._core lends, between
// init() and shutdown().
//
// TensorFlow knows kernels by name, once per process, so this is the one global state of the
// library.
//
// Thread safe.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "python/operations_table.h"

namespace colla::tf_kernels {

// A code of the table as TensorFlow's own.
absl::Status statusOf(std::int32_t code, const std::string& message);

// The table's functions in the job of now. FailedPrecondition where there is none.
absl::Status submit(const CollaOperation& operation);
absl::Status join(void* caller,
                  void (*done)(void* caller, std::int32_t code, const char* message, CollaNumbers));
absl::StatusOr<std::int32_t> number(std::int32_t what, std::int32_t set);

}  // namespace colla::tf_kernels
