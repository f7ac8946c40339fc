#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "base/command_line.h"
#include "base/text_table.h"
#include "colla/dataset.h"
#include "data/summary.h"
#include "data_commands.h"

namespace colla::cli {
namespace {

constexpr std::int64_t kLookedAt = 1000;

// "128x96", or "128" for both.
bool parseSize(std::string_view text, ReadOptions& options) {
  const std::size_t cross = text.find('x');
  const auto number = [](std::string_view part, std::int64_t& value) {
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    return error == std::errc() && end == part.data() + part.size();
  };
  if (cross == std::string_view::npos) {
    options.width = 0;
    const bool fine = number(text, options.height);
    options.width = options.height;
    return fine;
  }
  return number(text.substr(0, cross), options.height) &&
         number(text.substr(cross + 1), options.width);
}

struct PartInfo {
  std::shared_ptr<const Dataset> dataset;
  data::Summary summary;
  std::optional<double> speed;
};

std::string shapeText(const Field& field) {
  std::vector<std::string> lengths;
  for (const std::int64_t length : field.shape) {
    lengths.push_back(length < 0 ? "?" : std::to_string(length));
  }
  return lengths.empty() ? "-" : fmt::format("{}", fmt::join(lengths, "x"));
}

void print(const PartInfo& part) {
  fmt::print("{}\n", part.dataset->describe());
  std::vector<TableRow> rows{{"field", "type", "shape", "smallest", "largest", "mean"}};
  for (const auto& [field, smallest, largest, mean] : part.summary.fields) {
    rows.push_back({field.name, std::string(toString(field.type)), shapeText(field),
                    fmt::format("{:.6g}", smallest), fmt::format("{:.6g}", largest),
                    fmt::format("{:.4g}", mean)});
  }
  fmt::print("{}", aligned(rows, {0, 1, 2}));
  if (part.speed) fmt::print("one thread reads {:.0f} samples/s\n", *part.speed);
}

nlohmann::json toJson(const PartInfo& part) {
  nlohmann::json json = {
      {"description", part.dataset->describe()}, {"samples", part.summary.samples},
      {"looked_at", part.summary.lookedAt},      {"classes", part.dataset->classes()},
      {"symbols", part.dataset->symbols()},      {"fields", nlohmann::json::array()}};
  for (const auto& [field, smallest, largest, mean] : part.summary.fields) {
    json["fields"].push_back({{"name", field.name},
                              {"type", toString(field.type)},
                              {"shape", field.shape},
                              {"smallest", smallest},
                              {"largest", largest},
                              {"mean", mean}});
  }
  if (part.speed) json["samples_per_second"] = *part.speed;
  return json;
}

Result<PartInfo> lookAt(const std::string& name, Part part, const ReadOptions& options,
                        bool speed) {
  PartInfo info;
  COLLA_TRY_ASSIGN(info.dataset, openDataset(name, part, options));
  COLLA_TRY_ASSIGN(info.summary, data::summarise(*info.dataset, kLookedAt));
  if (speed) {
    COLLA_TRY_ASSIGN(info.speed, data::readingSpeed(*info.dataset, std::chrono::seconds(1)));
  }
  return info;
}

}  // namespace

int dataInfoCommand(const Arguments& arguments) {
  CLI::App app(
      "Tells what is in a data set: samples of each part, fields with type and shape, and the\n"
      "values of up to 1000 samples:\n"
      "colla data info NAME [flags]",
      "colla data info");
  app.footer(
      "NAME is what colla train --data takes: synthetic:cifar10, mnist:FOLDER, a folder, ….\n");
  std::string name;
  std::string size;
  ReadOptions options;
  bool speed = false;
  std::string asJson;
  app.add_option("NAME", name, "the data set")->required();
  app.add_option("--size", size, "scale images to HEIGHTxWIDTH")->option_text("HxW");
  app.add_option("--length", options.length, "cut or pad sequences to that length");
  app.add_option("--vocabulary", options.vocabulary, "file with the words, one per line")
      ->option_text("FILE");
  app.add_flag("--augment", options.augment, "crop and flip images of the training part");
  app.add_flag("--speed", speed, "measure how fast one thread reads, a second for each part");
  addJsonFlag(app, asJson, "the same as JSON");
  if (const auto exitCode = parse(app, arguments)) return *exitCode;
  if (!size.empty() && !parseSize(size, options)) {
    return usageError(app.get_name(), fmt::format("--size is {}, but is to be like 128x128", size));
  }

  auto train = lookAt(name, Part::kTrain, options, speed);
  auto test = lookAt(name, Part::kTest, options, speed);
  // A part that is not there is no failure, unless the other one is missing too.
  const bool neither = !train.ok() && !test.ok();
  for (const auto* part : {&train, &test}) {
    if (part->ok() || (!neither && part->status().code() == StatusCode::kNotFound)) continue;
    fmt::print(stderr, "{}: {}\n", app.get_name(), part->status().message());
    return 1;
  }
  nlohmann::json json = {{"name", name}, {"train", nullptr}, {"test", nullptr}};
  if (train.ok()) json["train"] = toJson(*train);
  if (test.ok()) json["test"] = toJson(*test);
  if (const Status written = writeJson(asJson, json.dump(2)); !written.ok()) {
    fmt::print(stderr, "{}: {}\n", app.get_name(), written.message());
    return 1;
  }
  if (asJson == "-") return 0;
  if (train.ok())
    print(*train);
  else
    fmt::print("there is no train part: {}\n", train.status().message());
  fmt::print("\n");
  if (test.ok())
    print(*test);
  else
    fmt::print("there is no test part: {}\n", test.status().message());
  return 0;
}

}  // namespace colla::cli
