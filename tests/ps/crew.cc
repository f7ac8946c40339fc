#include "ps/crew.h"

#include <algorithm>
#include <thread>

namespace colla::ps {

Crew::Crew(test::Wire wire, int workers, int servers, std::chrono::milliseconds timeout,
           int serverThreads, const test::Sent& sent)
    : workers_(workers),
      timeout_(timeout),
      serverThreads_(serverThreads),
      transports_(test::makeTransports(wire, workers + servers, sent)),
      statuses_(servers) {
  for (int rank = 0; rank < workers; ++rank) names_.push_back("rank " + std::to_string(rank));
  for (int rank = 0; rank < servers; ++rank) names_.push_back("ps " + std::to_string(rank));
}

Crew::Crew(const std::vector<int>& hosts, test::Wire inside, test::Wire between, int servers,
           const test::Sent& sent, std::chrono::milliseconds timeout)
    : Crew(between, static_cast<int>(hosts.size()), servers, timeout, /*serverThreads=*/2, sent) {
  inside_ = test::makeTransports(inside, workers_);
}

ClientOptions Crew::client(int rank) const {
  return {.transport = transports_[rank].get(),
          .rank = rank,
          .workers = workers_,
          .servers = static_cast<int>(statuses_.size()),
          .names = names_,
          .timeout = timeout_,
          .host = inside_.empty() ? nullptr : inside_[rank].get()};
}

void Crew::serve(int server, const std::function<std::vector<int>(std::size_t)>& peersOf) {
  const auto servers = static_cast<int>(statuses_.size());
  std::unique_ptr<Holding> kept;
  bool again = true;
  for (std::uint32_t life = 0; again; ++life) {
    const std::vector<int> peers = peersOf(life);
    Server running({.transport = transports_[workers_ + server].get(),
                    .rank = server,
                    .servers = servers,
                    .workers = peers.empty() ? workers_ : static_cast<int>(peers.size()) - servers,
                    .names = names_,
                    .peers = peers,
                    .timeout = timeout_,
                    .threads = serverThreads_,
                    .worthSharing = 0,
                    .life = life},
                   std::move(kept));
    statuses_[server] = running.run();
    again = running.again();
    kept = running.takeKept();
  }
}

void Crew::run(const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int server = 0; server < static_cast<int>(statuses_.size()); ++server) {
    threads.emplace_back(
        [this, server] { serve(server, [](std::size_t) { return std::vector<int>(); }); });
  }
  for (int rank = 0; rank < workers_; ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
}

void Crew::runEpochs(const Epochs& epochs,
                     const std::function<void(int, int, const ClientOptions&)>& body) {
  const auto peersOf = [&](std::size_t epoch) {
    std::vector<int> peers = epochs[epoch];
    for (std::size_t server = 0; server < statuses_.size(); ++server) {
      peers.push_back(workers_ + static_cast<int>(server));
    }
    return peers;
  };
  std::vector<std::thread> threads;
  for (int server = 0; server < static_cast<int>(statuses_.size()); ++server) {
    threads.emplace_back([this, server, &peersOf] { serve(server, peersOf); });
  }
  for (int worker = 0; worker < workers_; ++worker) {
    threads.emplace_back([&, worker] {
      for (std::size_t epoch = 0; epoch < epochs.size(); ++epoch) {
        const std::vector<int>& members = epochs[epoch];
        const auto found = std::ranges::find(members, worker);
        if (found == members.end()) continue;
        ClientOptions options = client(worker);
        options.rank = static_cast<int>(found - members.begin());
        options.workers = static_cast<int>(members.size());
        options.peers = peersOf(epoch);
        body(static_cast<int>(epoch), options.rank, options);
      }
    });
  }
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
