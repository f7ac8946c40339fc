#include "collective/host_tree.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace colla::collective {
namespace {

constexpr int kSeveral = -1;

}  // namespace

// Children come before parents, so one pass upwards finds the nodes that belong to one host alone,
// and the nodes of a subtree are neighbours.
HostTree::HostTree(const SumTree& tree, const Topology& topology) {
  const auto nodes = tree.nodes();
  std::vector<int> hosts, firsts,
      depths(nodes.size(), 0);  // By node: the host, the first below it.
  for (const SumTree::Node& node : nodes) {
    const int number = static_cast<int>(hosts.size());
    const bool leaf = node.leaf >= 0;
    const bool one = leaf || hosts[node.left] == hosts[node.right];
    hosts.push_back(!one ? kSeveral : leaf ? topology.hostOf(node.rank) : hosts[node.left]);
    firsts.push_back(leaf ? number : firsts[node.left]);
  }
  for (int number = static_cast<int>(nodes.size()) - 1; number >= 0; --number) {
    if (nodes[number].leaf >= 0) continue;
    for (const int child : {nodes[number].left, nodes[number].right}) {
      depths[child] = depths[number] + 1;
    }
  }

  // A node of the new tree is one of several hosts, or the largest of one.
  std::vector<bool> top(nodes.size(), false);
  top.back() = hosts.back() != kSeveral;
  for (std::size_t number = 0; number < nodes.size(); ++number) {
    if (hosts[number] != kSeveral) continue;
    for (const int child : {nodes[number].left, nodes[number].right}) {
      top[child] = hosts[child] != kSeveral;
    }
  }
  above_.slices_ = tree.slices();
  above_.layout_ = tree.layout();
  above_.firstLeaf_.assign(topology.hosts() + 1, 0);
  for (std::size_t number = 0; number < nodes.size(); ++number) {
    if (top[number]) ++above_.firstLeaf_[hosts[number] + 1];
  }
  std::partial_sum(above_.firstLeaf_.begin(), above_.firstLeaf_.end(), above_.firstLeaf_.begin());
  for (int host = 0; host < topology.hosts(); ++host) {
    above_.mostLeaves_ = std::max(above_.mostLeaves_, above_.leavesOf(host));
  }

  std::vector<int> next = above_.firstLeaf_, places(nodes.size(), -1);
  below_.resize(above_.leaves());
  bool level = true;  // All leaves are equally deep.
  int depth = -1;
  for (std::size_t number = 0; number < nodes.size(); ++number) {
    if (hosts[number] != kSeveral && !top[number]) continue;
    SumTree::Node node{.rank = topology.hostOf(nodes[number].rank)};
    if (top[number]) {
      node.leaf = next[hosts[number]]++;
      below_[node.leaf] = nodes.subspan(firsts[number], number + 1 - firsts[number]);
      level = level && (depth < 0 || depth == depths[number]);
      depth = depths[number];
    } else {
      node.left = places[nodes[number].left];
      node.right = places[nodes[number].right];
    }
    places[number] = static_cast<int>(above_.nodes_.size());
    above_.nodes_.push_back(node);
  }
  above_.complete_ = level && above_.leaves() == topology.hosts() &&
                     std::has_single_bit(static_cast<unsigned>(topology.hosts()));
}

}  // namespace colla::collective
