#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "bench/peers/embedded.h"
#include "bench/peers/files.h"

namespace colla::bench {

Status writePeerFiles(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  for (const PeerFile& file : kPeerFiles) {
    const std::string path = fmt::format("{}/{}", folder, file.name);
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out << file.text;
    out.close();
    if (!out) return {StatusCode::kIo, fmt::format("cannot write {}", path)};
  }
  return {};
}

}  // namespace colla::bench
