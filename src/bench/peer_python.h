// Python environments for peers that come from PyPI: made when they are asked for, kept for the
// next time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/coordinator.h"
#include "colla/status.h"

namespace colla::bench {

struct PeerPackages {
  std::string name;                       // Of the environment's directory: "mxnet-1.9.1".
  std::vector<std::string> requirements;  // As pip takes them.
};
// "mxnet" or "tf".
PeerPackages peerPackages(const std::string& peer);

// Where environments are kept: colla/bench in $XDG_CACHE_HOME, or in ~/.cache. kNotFound, with what
// to set, where there is neither.
Result<std::string> peerCache();

// The Python of the peer's environment. One that is not there is made if `make`, which takes
// minutes and is told to `tell`; otherwise kNotFound, with what to do. An environment appears whole
// or not at all, however this process ends.
Result<std::string> peerPython(Coordinator& coordinator, const std::string& peer, bool make,
                               const std::function<void(const std::string& line)>& tell);

}  // namespace colla::bench
