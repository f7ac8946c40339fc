// What the public collectives check before they begin. Every check that fails is the caller's own
// mistake: kInvalidArgument.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <initializer_list>
#include <string_view>

#include "base/invalid.h"
#include "colla/buffer.h"
#include "colla/collectives.h"
#include "collective/group_core.h"
#include "collective/kernels.h"
#include "collective/reduction.h"

namespace colla::collective {

// The first of several checks that failed.
inline Status first(std::initializer_list<Status> checks) {
  for (const Status& status : checks) {
    if (!status.ok()) return status;
  }
  return {};
}

inline Status checkRank(const GroupCore& group, int rank, std::string_view what) {
  if (rank >= 0 && rank < group.size()) return {};
  return invalid("{} {} is not one of the group's ranks 0 to {}", what, rank, group.size() - 1);
}

inline Status checkOp(DataType type, ReduceOp op) {
  if (supported(type, op)) return {};
  return invalid("{} is not defined for {}: sum, and divide afterwards", toString(op),
                 toString(type));
}

inline Status checkCount(std::string_view what, std::size_t count, std::size_t wanted) {
  if (count == wanted) return {};
  return invalid("{} holds {} elements, but needs {}", what, count, wanted);
}

inline Status checkType(ConstBuffer data, ConstBuffer result) {
  if (data.type() == result.type()) return {};
  return invalid("data is {}, result is {}", toString(data.type()), toString(result.type()));
}

// The part of [from, to) that lies in the window [begin, end).
inline Range within(std::size_t from, std::size_t to, std::size_t begin, std::size_t end) {
  const std::size_t low = std::max(from, begin);
  return {low, std::max(low, std::min(to, end))};
}

}  // namespace colla::collective
