// Gives worker 0 our standard input.
//
// A file or a pipe it simply inherits. A terminal it cannot read, since its process group is not
// the one in the foreground: then we read, and pass on through a pipe.
#pragma once

#include <poll.h>

#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/unique_fd.h"
#include "colla/status.h"

namespace colla::launch {

class StdinPump {
 public:
  static Result<StdinPump> create();

  // For worker 0, until closeReader().
  int reader() const { return reader_.get(); }
  // For whoever reads in the place of a worker 0 on a different host.
  UniqueFd takeReader() { return std::move(reader_); }
  void closeReader() { reader_.reset(); }

  // As for Output: adds one entry, and handles it.
  void prepare(std::vector<pollfd>& polls);
  void handle(const pollfd& poll);
  TimePoint nextDeadline(TimePoint now) const;

 private:
  UniqueFd reader_;
  UniqueFd writer_;      // Invalid unless we pass on.
  std::string pending_;  // Read, not yet passed on.
  bool foreground_ = false;
};

}  // namespace colla::launch
