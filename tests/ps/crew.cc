#include "ps/crew.h"

#include <thread>

namespace colla::ps {

Crew::Crew(test::Wire wire, int workers, int servers, std::chrono::milliseconds timeout,
           int serverThreads)
    : workers_(workers),
      timeout_(timeout),
      serverThreads_(serverThreads),
      transports_(test::makeTransports(wire, workers + servers)),
      statuses_(servers) {
  for (int rank = 0; rank < workers; ++rank) names_.push_back("rank " + std::to_string(rank));
  for (int rank = 0; rank < servers; ++rank) names_.push_back("ps " + std::to_string(rank));
}

ClientOptions Crew::client(int rank) const {
  return {.transport = transports_[rank].get(),
          .rank = rank,
          .workers = workers_,
          .servers = static_cast<int>(statuses_.size()),
          .names = names_,
          .timeout = timeout_};
}

void Crew::run(const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int server = 0; server < static_cast<int>(statuses_.size()); ++server) {
    threads.emplace_back([this, server] {
      bool again = true;
      for (std::uint32_t life = 0; again; ++life) {
        Server running({.transport = transports_[workers_ + server].get(),
                        .rank = server,
                        .servers = static_cast<int>(statuses_.size()),
                        .workers = workers_,
                        .names = names_,
                        .timeout = timeout_,
                        .threads = serverThreads_,
                        .worthSharing = 0,
                        .life = life});
        statuses_[server] = running.run();
        again = running.again();
      }
    });
  }
  for (int rank = 0; rank < workers_; ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
}

Declaration declarationFor(std::vector<Entry> entries, int workers, int servers, int slices) {
  Declaration declaration;
  declaration.entries = std::move(entries);
  declaration.layout.servers = servers;
  declaration.policy.workers = workers;
  const SliceMap map = *SliceMap::even(slices, workers);
  for (int worker = 0; worker < workers; ++worker) {
    declaration.firstSlices.push_back(map.range(worker).begin);
  }
  declaration.firstSlices.push_back(slices);
  return declaration;
}

}  // namespace colla::ps
