// The manifest of a checkpoint, from bytes of anybody.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "base/crc32c.h"
#include "checkpoint/manifest.h"

namespace {

using colla::checkpoint::encodeManifest;
using colla::checkpoint::parseManifest;
using nlohmann::json;

void check(std::string_view text) {
  const auto manifest = parseManifest(text);
  if (!manifest.ok()) return;
  const auto again = parseManifest(encodeManifest(*manifest));
  if (!again.ok() || encodeManifest(*again) != encodeManifest(*manifest)) std::abort();
}

}  // namespace

// The input as it is; and laid over a good manifest with a checksum that is right, so that what
// stands behind the checksum is reached.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check(text);
  const json patch = json::parse(text.begin(), text.end(), nullptr, false);
  if (!patch.is_object()) return 0;
  json value = json::parse(encodeManifest({}));
  value.update(patch);
  value.erase("crc32c");
  const std::string covered = value.dump(-1, ' ', false, json::error_handler_t::replace);
  constexpr char kDigits[] = "0123456789abcdef";
  const std::uint32_t crc = colla::crc32c(std::as_bytes(std::span(covered)));
  std::string hex;
  for (int shift = 28; shift >= 0; shift -= 4) hex += kDigits[(crc >> shift) & 15];
  value["crc32c"] = hex;
  check(value.dump(-1, ' ', false, json::error_handler_t::replace));
  return 0;
}
