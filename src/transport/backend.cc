#include "transport/backend.h"

#include <fmt/format.h>

namespace colla::transport {

Backend::Arrival Backend::noStream(int peer, const std::string& name, const Status& why) {
  const bool gone = why.code() == StatusCode::kPeerLost;
  return {peer, nullptr,
          Status(why.code(),
                 gone ? fmt::format("{} is gone ({})", name, why.message())
                      : fmt::format("no connection to {}: {}", name, why.message()),
                 peer)};
}

}  // namespace colla::transport
