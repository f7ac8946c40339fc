// The hosts of a group of workers: which ranks are on which host, and which share memory.
//
// A value: immutable, cheap to copy.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace colla {

class Topology {
 public:
  // hosts[r] names the host of rank r; ranks with equal names are on one host. `sharedMemory` says
  // whether the ranks of a host share memory: they do unless the job uses a network inside a host.
  Topology(std::span<const std::string> hosts, bool sharedMemory);

  int workers() const { return static_cast<int>(table_->host.size()); }
  int hosts() const { return static_cast<int>(table_->ranks.size()); }
  // Hosts are numbered in the order of their lowest ranks.
  int hostOf(int rank) const { return table_->host[rank]; }
  // In ascending order.
  std::span<const int> ranksOn(int host) const { return table_->ranks[host]; }

  // Two ranks share memory.
  bool sharesMemory(int a, int b) const { return table_->shared && hostOf(a) == hostOf(b); }
  // All ranks do.
  bool sharesMemory() const { return table_->shared && hosts() == 1; }

  // As Horovod defines them: a rank's number among those of its host, and its host's number among
  // the hosts that have such a local rank.
  int localRank(int rank) const { return table_->local[rank]; }
  int localSize(int rank) const { return static_cast<int>(ranksOn(hostOf(rank)).size()); }
  int crossRank(int rank) const { return table_->cross[rank]; }
  int crossSize(int rank) const { return table_->crossSizes[localRank(rank)]; }

 private:
  struct Table {
    bool shared = false;
    std::vector<int> host, local, cross;  // By rank.
    std::vector<std::vector<int>> ranks;  // By host.
    std::vector<int> crossSizes;          // By local rank.
  };
  std::shared_ptr<const Table> table_;
};

}  // namespace colla
