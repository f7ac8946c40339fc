#include "bench/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/text_table.h"
#include "bench/units.h"

namespace colla::bench {
namespace {

constexpr std::size_t kOperationColumn = 0;
constexpr std::size_t kSystemColumn = 3;

bool isColla(const std::string& system) { return system.starts_with("colla"); }

}  // namespace

double median(std::vector<double> values) {
  COLLA_CHECK(!values.empty());
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return (values[middle - 1] + values[middle]) / 2;
}

std::string table(std::span<const Measurement> measurements) {
  TableRow header = {"op", "bytes", "np", "system", "time", "GB/s"};
  std::vector<std::string> ours;
  for (const Measurement& m : measurements) {
    if (isColla(m.system) && std::ranges::find(ours, m.system) == ours.end()) {
      ours.push_back(m.system);
      header.push_back(m.system + "/it");
    }
  }
  const auto pointOf = [](const Measurement& m) { return std::tuple(m.operation, m.bytes, m.np); };
  std::map<std::pair<std::string, decltype(pointOf({}))>, double> secondsOfColla;
  for (const Measurement& m : measurements) {
    if (isColla(m.system)) secondsOfColla[{m.system, pointOf(m)}] = m.seconds;
  }

  std::vector<TableRow> rows = {header};
  for (const Measurement& m : measurements) {
    TableRow row = {std::string(toString(m.operation)),
                    m.bytes == 0 ? "-" : bytesText(m.bytes),
                    fmt::format("{}", m.np),
                    m.system,
                    durationText(m.seconds),
                    m.bytes == 0 ? "-" : numberText(m.gigabytesPerSecond())};
    for (const std::string& system : ours) {
      const auto it = secondsOfColla.find({system, pointOf(m)});
      const bool meaningful = it != secondsOfColla.end() && system != m.system;
      row.push_back(meaningful ? numberText(m.seconds / it->second) + "x" : "");
    }
    rows.push_back(std::move(row));
  }
  return aligned(rows, {kOperationColumn, kSystemColumn});
}

std::string json(std::span<const Measurement> measurements) {
  auto list = nlohmann::ordered_json::array();
  for (const Measurement& m : measurements) {
    list.push_back({{"system", m.system},
                    {"op", toString(m.operation)},
                    {"np", m.np},
                    {"bytes", m.bytes},
                    {"seconds", m.seconds},
                    {"gb_per_s", m.gigabytesPerSecond()},
                    {"buffers", m.buffers},
                    {"transport", m.transport},
                    {"rounds", m.rounds},
                    {"iterations", m.iterations}});
  }
  return list.dump(2) + "\n";
}

}  // namespace colla::bench
