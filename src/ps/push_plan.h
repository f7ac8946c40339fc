// Which worker pushes which part of the gradients, and along which tree the servers add the parts.
//
// Usually every worker pushes its own partial sums. In a job on several hosts whose workers share
// memory, the workers of a host add their partial sums first (ps/host_sums.h), and take turns at
// pushing the blocks of the host's sums. What comes from one worker, or from one host, is a
// *source* of the servers' tree. The whole tree over slices is the same in both cases, and so are
// the bits.
//
// Immutable. Workers and servers make equal ones from equal declarations.
#pragma once

#include <optional>
#include <span>

#include "colla/slices.h"
#include "colla/topology.h"
#include "collective/host_tree.h"
#include "collective/sum_tree.h"

namespace colla::ps {

class PushPlan {
 public:
  // hosts[w] is the host of worker w; with no hosts every worker pushes its own.
  PushPlan(SliceMap slices, std::span<const int> hosts);

  // The workers of a host add their gradients before they push.
  bool perHost() const { return topology_.has_value(); }
  // What servers add: its ranks are the sources.
  const collective::SumTree& tree() const { return perHost() ? host_->above() : slices_.tree(); }
  int sourceOf(int worker) const { return perHost() ? topology_->hostOf(worker) : worker; }
  bool pushesBlock(int worker, int block) const { return takesTurn(worker, block); }
  // The rows of table `entry` that `server` holds.
  bool pushesRows(int worker, int entry, int server) const {
    return takesTurn(worker, entry + server);
  }

  // Only with hosts: the tree down to the workers' partial sums, and the part of it that leaf
  // number `leaf` of tree() is the sum of.
  const collective::SumTree& wholeTree() const { return slices_.tree(); }
  std::span<const collective::SumTree::Node> below(int leaf) const { return host_->below(leaf); }
  const Topology& topology() const { return *topology_; }

 private:
  bool takesTurn(int worker, int part) const {
    return !perHost() || topology_->localRank(worker) == part % topology_->localSize(worker);
  }

  const SliceMap slices_;
  std::optional<Topology> topology_;
  std::optional<collective::HostTree> host_;
};

}  // namespace colla::ps
