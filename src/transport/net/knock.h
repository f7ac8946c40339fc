// Finds out that nobody listens at an address any more, for those who wait to be connected to from
// there.
//
// It is a connection that says nothing. The kernel takes it also while the process is busy, or
// stopped, and closes it when the process ends; then the next one is refused. The listener leaves
// those alone that come and go without a word.
//
// Not thread safe.
#pragma once

#include <string>

#include "base/deadline.h"
#include "base/unique_fd.h"
#include "colla/status.h"

namespace colla::transport::net {

class Knock {
 public:
  // Not at once: most are connected to before it is worth the trouble.
  explicit Knock(std::string address);

  // Looks, without waiting. kPeerLost once nobody listens.
  Status look();
  // Look again when this is readable (-1: there is nothing to poll), and at this time.
  int fd() const { return fd_.get(); }
  TimePoint next() const { return next_; }

 private:
  Status refused(const Status& why);

  std::string address_;
  UniqueFd fd_;
  TimePoint next_;
  int refusals_ = 0;  // In a row.
};

}  // namespace colla::transport::net
