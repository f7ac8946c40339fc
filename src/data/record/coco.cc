#include "data/record/coco.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

namespace colla::data {
namespace {

using Json = nlohmann::json;

bool leadsOut(const std::string& file) {
  const std::filesystem::path path(file);
  return path.empty() || path.is_absolute() || file.find('\0') != std::string::npos ||
         std::ranges::any_of(path, [](const auto& part) { return part == ".."; });
}

class Reader {
 public:
  Reader(const Json& json, std::string_view name) : json_(json), name_(name) {}

  Result<std::vector<AnnotatedImage>> read() {
    COLLA_TRY(readImages());
    COLLA_TRY(readAnnotations());
    return std::move(images_);
  }

 private:
  Status wrong(std::string_view what) const {
    return {StatusCode::kIo, fmt::format("{}: {}", name_, what)};
  }
  // Entry `index` of `list`, if it has the fields `number` (an integer) and `text`.
  static bool hasFields(const Json& entry, const char* number, const char* text) {
    return entry.is_object() && entry.contains(number) && entry[number].is_number_integer() &&
           entry.contains(text) && entry[text].is_string();
  }

  Status readImages() {
    if (!json_.is_object() || !json_.contains("images") || !json_["images"].is_array()) {
      return wrong("has no list \"images\"");
    }
    for (const Json& entry : json_["images"]) {
      if (!hasFields(entry, "id", "file_name")) {
        return wrong(fmt::format("image {} has no whole number \"id\" or no text \"file_name\"",
                                 images_.size()));
      }
      auto file = entry["file_name"].get<std::string>();
      if (leadsOut(file)) {
        return wrong(fmt::format("image {}: \"{}\" does not name a file in the folder of images",
                                 images_.size(), file));
      }
      const auto id = entry["id"].get<std::int64_t>();
      if (!places_.emplace(id, images_.size()).second) {
        return wrong(
            fmt::format("image {} has the id {} that another one has", images_.size(), id));
      }
      images_.push_back({std::move(file), {}});
    }
    return {};
  }

  Status readAnnotations() {
    if (!json_.contains("annotations") || !json_["annotations"].is_array()) {
      return wrong("has no list \"annotations\"");
    }
    std::size_t index = 0;
    for (const Json& entry : json_["annotations"]) {
      if (!hasFields(entry, "image_id", "caption")) {
        return wrong(fmt::format(
            "annotation {} has no whole number \"image_id\" or no text \"caption\"", index));
      }
      const auto place = places_.find(entry["image_id"].get<std::int64_t>());
      if (place == places_.end()) {
        return wrong(fmt::format("annotation {} is of image {}, which is not in the list", index,
                                 entry["image_id"].get<std::int64_t>()));
      }
      images_[place->second].captions.push_back(entry["caption"].get<std::string>());
      ++index;
    }
    return {};
  }

  const Json& json_;
  std::string_view name_;
  std::vector<AnnotatedImage> images_;
  std::unordered_map<std::int64_t, std::size_t> places_;
};

}  // namespace

Result<std::vector<AnnotatedImage>> parseCoco(std::span<const std::byte> file,
                                              std::string_view name) {
  const auto* begin = reinterpret_cast<const char*>(file.data());
  Json json;
  try {  // Its exceptions know where.
    json = Json::parse(begin, begin + file.size());
  } catch (const Json::parse_error& error) {
    return {StatusCode::kIo, fmt::format("{}: is no JSON from byte {} on", name, error.byte)};
  } catch (const Json::exception&) {
    return {StatusCode::kIo, fmt::format("{}: has a number that is too large", name)};
  }
  return Reader(json, name).read();
}

}  // namespace colla::data
