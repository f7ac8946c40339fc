// A job of real processes, started by the test itself: what a launcher would do, without one.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "job/environment.h"
#include "rendezvous/store_server.h"

namespace colla::test {

class Processes {
 public:
  using Variables = std::map<std::string, std::string>;
  struct Ended {
    int code = -1;          // Exit code; -1 when it was ended by a signal.
    int signal = 0;         // That signal.
    std::string said = "";  // Its standard output and error.
    std::chrono::steady_clock::time_point when = {};
  };

  // Starts `count` workers of `command`, each with the variables of its place, `common` and
  // `own[rank]`, and a store for them. After them, in `rank`, come `servers`.
  Processes(int count, std::vector<std::string> command, const Variables& common = {},
            const std::map<int, Variables>& own = {}, int servers = 0);
  // Kills what is left.
  ~Processes();

  // Of the last rank: what all have in common stands there too.
  const job::Place& place() const { return place_; }
  void signal(int rank, int number);
  // TCP ports that a rank listens on.
  std::vector<std::uint16_t> ports(int rank) const;
  // Rank `rank` has said `text`; false when it has not within the limit.
  bool says(int rank, const std::string& text,
            std::chrono::milliseconds limit = std::chrono::seconds(20));
  // Waits for the end of a rank; the code is -2 when it does not come within the limit.
  Ended end(int rank, std::chrono::milliseconds limit = std::chrono::seconds(20));

 private:
  struct Child {
    pid_t pid = 0;
    UniqueFd output;
    std::string said;
    bool ended = false;
  };
  void readSome(Child& child, std::chrono::milliseconds limit);

  job::Place place_;
  std::unique_ptr<rendezvous::StoreServer> store_;
  std::vector<Child> children_;
};

}  // namespace colla::test
