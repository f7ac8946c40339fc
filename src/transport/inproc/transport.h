// Threads of one process as the peers of a job: for tests, and for strategies whose workers are
// threads.
#pragma once

#include <memory>

#include "colla/status.h"
#include "transport/options.h"
#include "transport/transport.h"

namespace colla::transport::inproc {

struct Board;

// Where the peers of a job meet. Thread safe; the transports may outlive it.
class Hub {
 public:
  explicit Hub(int size);

  // Takes the place options.self, once. The others see a peer whose transport is destroyed as
  // lost. options.peers has one entry per peer, with a name.
  Result<std::unique_ptr<Transport>> connect(const Options& options);

 private:
  std::shared_ptr<Board> board_;
};

}  // namespace colla::transport::inproc
