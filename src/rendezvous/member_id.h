// Names one process of a job: its role, and its number among those of that role.
#pragma once

#include <fmt/format.h>

#include <compare>
#include <string>

#include "colla/role.h"

namespace colla::rendezvous {

struct MemberId {
  Role role = Role::kWorker;
  int rank = 0;

  friend auto operator<=>(const MemberId&, const MemberId&) = default;  // Workers come first.
};

// "rank 3" or "ps 0".
inline std::string toString(MemberId id) {
  return fmt::format("{} {}", id.role == Role::kWorker ? "rank" : "ps", id.rank);
}

}  // namespace colla::rendezvous
