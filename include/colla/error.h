// What code above libtorch throws: a Status as an exception.
//
// Below libtorch errors are values (colla/status.h). Between a program's own loop, autograd's hooks
// and a module's forward() they have to pass through functions that only know exceptions.
#pragma once

#include <stdexcept>
#include <utility>

#include "colla/status.h"

namespace colla {

class Error : public std::runtime_error {
 public:
  explicit Error(Status status)
      : std::runtime_error(toString(status)), status_(std::move(status)) {}
  Error(StatusCode code, std::string message) : Error(Status(code, std::move(message))) {}

  const Status& status() const { return status_; }

 private:
  Status status_;
};

// Throws unless `status` is fine.
inline void throwIfError(const Status& status) {
  if (!status.ok()) throw Error(status);
}
// The value, or throws.
template <typename T>
T valueOrThrow(Result<T> result) {
  throwIfError(result.status());
  return *std::move(result);
}

}  // namespace colla
