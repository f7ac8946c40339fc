// What a process does in its job.
#pragma once

#include <cstdint>
#include <string_view>

namespace colla {

enum class Role : std::uint8_t {
  kWorker,  // Computes gradients.
  kServer,  // Holds a shard of the parameters.
};

// "worker" or "ps", as in the environment and in messages.
constexpr std::string_view toString(Role role) { return role == Role::kWorker ? "worker" : "ps"; }

}  // namespace colla
