#include "transport/inproc/transport.h"

#include <fmt/format.h>

#include "transport/inproc/backend.h"
#include "transport/messenger.h"

namespace colla::transport::inproc {

Hub::Hub(int size) : board_(std::make_shared<Board>(static_cast<std::size_t>(size))) {}

Result<std::unique_ptr<Transport>> Hub::connect(const Options& options) {
  const auto self = static_cast<std::size_t>(options.self);
  if (options.peers.size() != board_->seats->size() || self >= options.peers.size()) {
    return {StatusCode::kInvalidArgument,
            fmt::format("peer {} of {} cannot join a hub of {}", options.self, options.peers.size(),
                        board_->seats->size())};
  }
  {
    const MutexLock lock(board_->mutex);
    if (board_->taken[self]) {
      return {StatusCode::kInvalidArgument, fmt::format("peer {} has joined already", self)};
    }
    board_->taken[self] = true;
  }
  return std::unique_ptr<Transport>(
      std::make_unique<Messenger>(options, std::make_unique<InprocBackend>(options, board_)));
}

}  // namespace colla::transport::inproc
