// What a checkpoint says about itself: where training stood, what decides its bits, and the size
// and CRC32C of each of its files. Kept as manifest.json, which carries a checksum of its own.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "colla/status.h"

namespace colla::checkpoint {

inline constexpr int kFormat = 1;
inline constexpr std::size_t kMaxManifest = 16 << 20;

struct FileEntry {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;
};

struct Manifest {
  // Where training stood.
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  std::int64_t samples = 0;  // Consumed in this epoch.
  // What decides the bits.
  std::uint64_t seed = 0;
  int slices = 1;
  int threads = 1;  // Per slice.
  std::int64_t globalBatch = 0;
  bool shuffle = true;
  bool bfloat16 = false;  // Forward and loss under autocast.
  std::string model;
  std::string modelOptions;
  std::string optimizer;
  // What does not.
  std::string strategy;
  int workers = 1;
  std::string collaVersion;
  std::string torchVersion;
  std::string data;                          // What was trained on, in words.
  std::string time;                          // Of the save, such as "2026-01-31T12:00:00Z".
  std::map<std::string, std::string> extra;  // Whatever else the writer wants to find again.
  // Set by Directory::save.
  std::vector<std::string> buffers;  // Names of the model's tensors that are not parameters.
  std::vector<FileEntry> files;
};

std::string encodeManifest(const Manifest& manifest);
// kUnsupported if a later format wrote it; kInvalidArgument if it is damaged or something else.
Result<Manifest> parseManifest(std::string_view text);

// A setting in which two runs differ.
struct Difference {
  std::string_view name;
  std::string a;
  std::string b;
};
// Those that decide the bits: seed, slices and threads first, then batch, order, bfloat16, model,
// optimizer.
// Training that goes on from a checkpoint with another value is not the same training.
std::vector<Difference> differences(const Manifest& a, const Manifest& b);

}  // namespace colla::checkpoint
