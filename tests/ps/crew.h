// Workers and servers as threads of the test, on every transport there is.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "ps/client.h"
#include "ps/server.h"
#include "support/ranks.h"

namespace colla::ps {

class Crew {
 public:
  Crew(test::Wire wire, int workers, int servers,
       std::chrono::milliseconds timeout = std::chrono::seconds(20), int serverThreads = 2,
       const test::Sent& sent = nullptr);
  // Workers on several hosts, worker w on hosts[w]: those of a host share memory by `inside`, and
  // all reach each other and the servers by `between`. `sent`: of kMessages.
  Crew(const std::vector<int>& hosts, test::Wire inside, test::Wire between, int servers,
       const test::Sent& sent = nullptr,
       std::chrono::milliseconds timeout = std::chrono::seconds(20));

  // Runs the servers, and body(rank) for each worker; returns when all of them have ended.
  void run(const std::function<void(int)>& body);
  // One epoch after another: epoch e has the workers `epochs[e]`, by their numbers in this crew, in
  // the order of their ranks. body(epoch, rank, options) runs for each of them.
  using Epochs = std::vector<std::vector<int>>;
  void runEpochs(const Epochs& epochs,
                 const std::function<void(int, int, const ClientOptions&)>& body);
  // What became of the servers.
  const std::vector<Status>& servers() const { return statuses_; }

  ClientOptions client(int rank) const;
  // What the others see of a worker that dies.
  void die(int rank) {
    transports_[rank].reset();
    if (!inside_.empty()) inside_[rank].reset();
  }

 private:
  // Serves for as long as workers come back. `peersOf(life)`: the epoch's, empty for all.
  void serve(int server, const std::function<std::vector<int>(std::size_t)>& peersOf);

  const int workers_;
  const std::chrono::milliseconds timeout_;
  const int serverThreads_;
  std::vector<std::unique_ptr<transport::Transport>> transports_;
  std::vector<std::unique_ptr<transport::Transport>> inside_;  // The hosts'; empty: there is one.
  std::vector<std::string> names_;
  std::vector<Status> statuses_;
};

// Slices 0..slices-1 shared out evenly; the layout and the policy fit.
Declaration declarationFor(std::vector<Entry> entries, int workers, int servers, int slices);

}  // namespace colla::ps
