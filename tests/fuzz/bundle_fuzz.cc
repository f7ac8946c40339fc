// Checkpoints of TensorFlow's, from bytes of anybody: as the file of the index, which checksums
// protect, or as keys and values that become a right table, so that what is behind the checksums is
// reached. Those of tensors are put right too.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "checkpoint/inspect.h"
#include "foreign/bundle.h"
#include "support/foreign_bundles.h"

namespace {

using namespace colla;
using namespace colla::foreign;

// Removed when the process ends.
struct Folder {
  Folder() {
    char name[] = "/tmp/colla-bundle-fuzz-XXXXXX";
    if (::mkdtemp(name) == nullptr) std::abort();
    path = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string path;
};

std::string_view take(std::string_view& bytes, std::size_t size) {
  const auto part = bytes.substr(0, size);
  bytes.remove_prefix(part.size());
  return part;
}

std::size_t takeSize(std::string_view& bytes) {
  const auto part = take(bytes, 1);
  return part.empty() ? 0 : static_cast<std::uint8_t>(part[0]);
}

// With the checksum of the bytes that it means; the last field of a kind counts.
std::string repaired(std::string value, std::string_view data) {
  const auto entry = parseBundleEntry(value);
  if (!entry.ok() || entry->offset > data.size() || entry->size > data.size() - entry->offset) {
    return value;
  }
  const auto bytes = data.substr(entry->offset, entry->size);
  protozero::pbf_writer(value).add_fixed32(6, maskedCrc32c(std::as_bytes(std::span(bytes))));
  return value;
}

std::string indexOf(std::string_view input, std::string& data) {
  std::vector<std::pair<std::string, std::string>> parts;
  for (std::size_t left = takeSize(input) % 8 + 1; left > 0; --left) {
    std::string key(take(input, takeSize(input) % 8));
    std::string value(take(input, takeSize(input)));
    parts.emplace_back("k" + std::move(key), std::move(value));
  }
  data = input;
  std::map<std::string, std::string> entries = {{"", headerOf(1)}};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    entries[parts[i].first] = repaired(parts[i].second, data);
    const auto entry = parseBundleEntry(parts[i].second);
    if (!entry.ok()) continue;
    for (std::size_t j = 0; j < entry->slices.size(); ++j) {
      entries[sliceKey(parts[i].first, entry->slices[j])] =
          repaired(parts[(i + 1 + j) % parts.size()].second, data);
    }
  }
  return tableOf(entries);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Folder folder;
  if (size == 0) return 0;
  const std::string prefix = folder.path + "/model.ckpt-1";
  const std::string_view input(reinterpret_cast<const char*>(data + 1), size - 1);
  std::string shard(16, 'x');
  writeBytes(prefix + ".index", data[0] % 4 == 0 ? std::string(input) : indexOf(input, shard));
  writeBytes(prefix + ".data-00000-of-00001", shard);
  const auto source = openBundle(prefix);
  if (!source.ok()) {
    if (!source.status().message().starts_with(prefix)) std::abort();
    return 0;
  }
  for (const auto& listed : source->tensors) {
    const auto elements = elementsOf(listed.tensor.shape);
    if (!elements || *elements != listed.tensor.elements()) std::abort();
  }
  (void)checkpoint::inspect(*source);  // Reads every byte.
  return 0;
}
