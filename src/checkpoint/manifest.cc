#include "checkpoint/manifest.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

#include "base/crc32c.h"
#include "base/invalid.h"

namespace colla::checkpoint {
namespace {

using nlohmann::json;

constexpr char kChecksum[] = "crc32c";

// Text that is not UTF-8 is no reason to lose a checkpoint.
std::string dump(const json& value, int indent) {
  return value.dump(indent, ' ', false, json::error_handler_t::replace);
}

std::string hex(std::uint32_t crc) { return fmt::format("{:08x}", crc); }

std::optional<std::uint32_t> parseHex(const std::string& text) {
  std::uint32_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value, 16);
  if (error != std::errc{} || stopped != end || text.size() != 8) return std::nullopt;
  return value;
}

// Over everything else in it, in one form whatever the layout of the file.
std::string checksumOf(json value) {
  value.erase(kChecksum);
  const std::string text = dump(value, -1);
  return hex(crc32c(std::as_bytes(std::span(text))));
}

// Takes members out of an object, and remembers the first that is missing or of another kind.
class Fields {
 public:
  explicit Fields(const json& object) : object_(object) {}

  template <typename T>
  void number(const char* name, T& value) {
    const json* found = find(name, &json::is_number_integer);
    if (found == nullptr) return;
    const bool fits = found->is_number_unsigned() ? std::in_range<T>(found->get<std::uint64_t>())
                                                  : std::in_range<T>(found->get<std::int64_t>());
    if (!fits) return complain(name);
    value = found->get<T>();
  }
  void text(const char* name, std::string& value) {
    if (const json* found = find(name, &json::is_string)) value = found->get<std::string>();
  }
  void boolean(const char* name, bool& value) {
    if (const json* found = find(name, &json::is_boolean)) value = found->get<bool>();
  }
  // A member that is a list or an object, or an empty one.
  const json& inner(const char* name, bool (json::*is)() const noexcept) {
    static const json kNothing;
    const json* found = find(name, is);
    return found == nullptr ? kNothing : *found;
  }
  void complain(std::string_view name) {
    if (problem_.empty()) problem_ = fmt::format("\"{}\" is missing or wrong", name);
  }
  Status status() const { return problem_.empty() ? Status() : invalid("{}", problem_); }

 private:
  const json* find(const char* name, bool (json::*is)() const noexcept) {
    const auto found = object_.find(name);
    if (found != object_.end() && ((*found).*is)()) return &*found;
    complain(name);
    return nullptr;
  }

  const json& object_;
  std::string problem_;
};

Status parseFiles(const json& files, std::vector<FileEntry>& into) {
  for (const auto& [name, entry] : files.items()) {
    // The name becomes a path.
    if (name.empty() || name.front() == '.' || name.find('/') != std::string::npos) {
      return invalid("\"{}\" cannot be one of its files", name);
    }
    FileEntry file{name, 0, 0};
    std::string crc;
    if (!entry.is_object()) return invalid("\"files\" is wrong");
    Fields fields(entry);
    fields.number("bytes", file.bytes);
    fields.text("crc32c", crc);
    COLLA_TRY(fields.status());
    const auto value = parseHex(crc);
    if (!value) return invalid("\"{}\" is not a CRC32C", crc);
    file.crc = *value;
    into.push_back(std::move(file));
  }
  return {};
}

}  // namespace

std::string encodeManifest(const Manifest& manifest) {
  json files = json::object();
  for (const FileEntry& file : manifest.files) {
    files[file.name] = {{"bytes", file.bytes}, {"crc32c", hex(file.crc)}};
  }
  json value = {
      {"format", kFormat},
      {"step", manifest.step},
      {"epoch", manifest.epoch},
      {"samples", manifest.samples},
      {"seed", manifest.seed},
      {"slices", manifest.slices},
      {"threads", manifest.threads},
      {"global_batch", manifest.globalBatch},
      {"shuffle", manifest.shuffle},
      {"bfloat16", manifest.bfloat16},
      {"model", manifest.model},
      {"model_options", manifest.modelOptions},
      {"optimizer", manifest.optimizer},
      {"strategy", manifest.strategy},
      {"workers", manifest.workers},
      {"colla_version", manifest.collaVersion},
      {"torch_version", manifest.torchVersion},
      {"data", manifest.data},
      {"time", manifest.time},
      {"extra", manifest.extra},
      {"buffers", manifest.buffers},
      {"files", files},
  };
  // What was replaced as not UTF-8 counts as it will be read.
  value = json::parse(dump(value, -1), nullptr, false);
  value[kChecksum] = checksumOf(value);
  return dump(value, 2) + "\n";
}

Result<Manifest> parseManifest(std::string_view text) {
  if (text.size() > kMaxManifest) return invalid("is too large for a manifest");
  // Nothing in a manifest is nested more deeply; what is, is dropped before it costs anything.
  constexpr int kDeepest = 3;
  const json value = json::parse(
      text.begin(), text.end(),
      [](int depth, json::parse_event_t, json&) { return depth <= kDeepest; },
      /*allow_exceptions=*/false);
  if (!value.is_object()) return invalid("is not the manifest of a checkpoint");
  int format = 0;
  std::string checksum;
  Fields fields(value);
  fields.number("format", format);
  COLLA_TRY(fields.status());
  if (format != kFormat) {
    return {StatusCode::kUnsupported,
            fmt::format("has format {}, but this Colla reads {}: use the version that wrote it",
                        format, kFormat)};
  }
  fields.text(kChecksum, checksum);
  COLLA_TRY(fields.status());
  if (checksum != checksumOf(value)) return invalid("is damaged: its CRC32C is not what it says");

  Manifest manifest;
  fields.number("step", manifest.step);
  fields.number("epoch", manifest.epoch);
  fields.number("samples", manifest.samples);
  fields.number("seed", manifest.seed);
  fields.number("slices", manifest.slices);
  fields.number("threads", manifest.threads);
  fields.number("global_batch", manifest.globalBatch);
  fields.boolean("shuffle", manifest.shuffle);
  // Those of earlier versions have neither.
  if (value.contains("bfloat16")) fields.boolean("bfloat16", manifest.bfloat16);
  if (value.contains("data")) fields.text("data", manifest.data);
  fields.text("model", manifest.model);
  fields.text("model_options", manifest.modelOptions);
  fields.text("optimizer", manifest.optimizer);
  fields.text("strategy", manifest.strategy);
  fields.number("workers", manifest.workers);
  fields.text("colla_version", manifest.collaVersion);
  fields.text("torch_version", manifest.torchVersion);
  fields.text("time", manifest.time);
  for (const auto& [name, entry] : fields.inner("extra", &json::is_object).items()) {
    if (entry.is_string())
      manifest.extra[name] = entry.get<std::string>();
    else
      fields.complain("extra");
  }
  for (const json& entry : fields.inner("buffers", &json::is_array)) {
    if (entry.is_string())
      manifest.buffers.push_back(entry.get<std::string>());
    else
      fields.complain("buffers");
  }
  COLLA_TRY(parseFiles(fields.inner("files", &json::is_object), manifest.files));
  if (manifest.step < 0) fields.complain("step");
  COLLA_TRY(fields.status());
  return manifest;
}

std::vector<Difference> differences(const Manifest& a, const Manifest& b) {
  std::vector<Difference> found;
  const auto look = [&found](std::string_view name, const auto& left, const auto& right) {
    if (left != right) found.push_back({name, fmt::format("{}", left), fmt::format("{}", right)});
  };
  look("seed", a.seed, b.seed);
  look("slices", a.slices, b.slices);
  look("threads", a.threads, b.threads);
  look("global batch", a.globalBatch, b.globalBatch);
  look("shuffle", a.shuffle, b.shuffle);
  look("bfloat16", a.bfloat16, b.bfloat16);
  look("model", a.model, b.model);
  look("model options", a.modelOptions, b.modelOptions);
  look("optimizer", a.optimizer, b.optimizer);
  return found;
}

}  // namespace colla::checkpoint
