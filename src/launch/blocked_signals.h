// SIGINT, SIGTERM and SIGHUP as something to read, as long as it lives.
//
// For processes with one thread: the signals are blocked in the thread that makes it.
#pragma once

#include <csignal>

#include "base/unique_fd.h"

namespace colla::launch {

class BlockedSignals {
 public:
  BlockedSignals();
  ~BlockedSignals();
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

  int fd() const { return fd_.get(); }
  // The number of the next one; 0 if there is none.
  int take() const;

 private:
  sigset_t before_;
  UniqueFd fd_;
};

}  // namespace colla::launch
