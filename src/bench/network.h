// Where ranks run, and what joins them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"
#include "bench/coordinator.h"
#include "colla/status.h"

namespace colla::bench {

enum class Net {
  kShm,   // One host, shared memory wherever a system can use it.
  kLoop,  // One host, TCP through the loopback interface.
  kVeth,  // Two network namespaces that only a pair of virtual Ethernet devices joins.
};

std::string_view toString(Net net);
Result<Net> parseNet(std::string_view text);

// A new network namespace, open, without a name: nothing of it is left once no process and no
// descriptor holds it. Needs root.
Result<UniqueFd> makeNamespace();

// Runs `ip` or `tc` inside a namespace.
Status configure(Coordinator& coordinator, int networkNamespace, std::vector<std::string> words);

// The namespace as another process of ours can name it, `ip` for one.
std::string pathOf(const UniqueFd& networkNamespace);

// The two namespaces of kVeth. Movable.
class VethPair {
 public:
  // Needs root, and `ip`.
  static Result<VethPair> create(Coordinator& coordinator);

  // The same name on both sides.
  static constexpr std::string_view kInterface = "veth0";
  static constexpr int kSides = 2;
  // An open descriptor of the namespace, and its address.
  int side(int number) const { return sides_[number].get(); }
  static std::string address(int number);

 private:
  std::vector<UniqueFd> sides_;
};

// The side on which a rank runs: the lower half of the ranks on side 0.
inline int sideOf(int rank, int np) { return rank < (np + 1) / 2 ? 0 : 1; }

}  // namespace colla::bench
