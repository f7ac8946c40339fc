// The files of this folder, carried in the program: an installed `colla` needs no source tree to
// run the benchmark. CMake makes the definitions.
#pragma once

#include <span>
#include <string_view>

namespace colla::bench {

struct PeerFile {
  std::string_view name;
  std::string_view text;
};
extern const std::span<const PeerFile> kPeerFiles;

}  // namespace colla::bench
