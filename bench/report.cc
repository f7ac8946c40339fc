#include "bench/report.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <set>
#include <utility>

#include "base/text_table.h"

namespace colla::bench {
namespace {

constexpr std::array<std::pair<char, int>, 3> kSuffixes = {{{'G', 30}, {'M', 20}, {'K', 10}}};
constexpr std::size_t kLeast = sizeof(float);
constexpr std::size_t kMost = std::size_t{4} << 30;  // MPI counts elements by int.

std::string ratioText(const Records& records, const Record& record, const Ratios& ratios,
                      const std::string& system) {
  if (record["system"] == system) return "";
  for (const Record& other : records) {
    if (other["system"] != system || ratios.point(record) != ratios.point(other)) continue;
    return numberText(ratios.rate(other) / ratios.rate(record)) + "x";
  }
  return "";
}

}  // namespace

Column textColumn(const std::string& title, const std::string& key) {
  return {title,
          [key](const Record& record) {
            if (!record.contains(key)) return std::string();
            const auto& value = record[key];
            return value.is_string() ? value.get<std::string>() : value.dump();
          },
          true};
}

Column numberColumn(const std::string& title, const std::string& key,
                    std::string (*show)(double value)) {
  return {title, [key, show](const Record& record) {
            return record.contains(key) ? show(record[key].get<double>()) : std::string();
          }};
}

std::string table(const Records& records, const std::vector<Column>& before, const Ratios& ratios,
                  const std::vector<Column>& after) {
  std::vector<Column> columns = before;
  for (const std::string& system : ratios.systems) {
    columns.push_back({system + "/it", [&records, &ratios, system](const Record& record) {
                         return ratioText(records, record, ratios, system);
                       }});
  }
  columns.insert(columns.end(), after.begin(), after.end());
  std::vector<TableRow> rows(1);
  std::set<std::size_t> left;
  for (const Column& column : columns) {
    if (column.left) left.insert(rows.front().size());
    rows.front().push_back(column.title);
  }
  for (const Record& record : records) {
    TableRow& row = rows.emplace_back();
    for (const Column& column : columns) row.push_back(column.text(record));
  }
  return aligned(rows, left);
}

std::string json(const Records& records) {
  return Record(Record::array_t(records.begin(), records.end())).dump(2) + "\n";
}

void addRun(Record& record, const Measurement& outcome, const std::string& countName) {
  record["rounds"] = outcome.rounds;
  record[countName] = outcome.iterations;
  record["cores"] = outcome.cores;
}

Result<std::size_t> parseBytes(std::string_view text) {
  std::size_t value = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  int shift = 0;
  const char* rest = end;
  for (const auto& [letter, bits] : kSuffixes) {
    if (rest != last && *rest == letter) {
      shift = bits;
      ++rest;
      break;
    }
  }
  if (error != std::errc() || rest != last) {
    return {StatusCode::kInvalidArgument,
            fmt::format("\"{}\" is not a size; write bytes as 1000, 64K, 4M or 1G", text)};
  }
  if (value > (kMost >> shift) || (value << shift) < kLeast) {
    return {StatusCode::kInvalidArgument,
            fmt::format("size {} is out of range: from {} to {} bytes", text, kLeast,
                        bytesText(static_cast<double>(kMost)))};
  }
  return value << shift;
}

std::string bytesText(double number) {
  const auto bytes = static_cast<std::size_t>(number);
  if (bytes == 0) return "-";
  for (const auto& [letter, bits] : kSuffixes) {
    const std::size_t unit = std::size_t{1} << bits;
    if (bytes >= unit && bytes % unit == 0) return fmt::format("{}{}", bytes / unit, letter);
  }
  return fmt::format("{}", bytes);
}

std::string numberText(double value) {
  if (value < 0.0995) return fmt::format("{:.2g}", value);
  return fmt::format("{:.{}f}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

std::string durationText(double seconds) {
  if (seconds < 0) return "-" + durationText(-seconds);
  if (seconds < 0.9995e-6) return numberText(seconds * 1e9) + " ns";
  if (seconds < 0.9995e-3) return numberText(seconds * 1e6) + " us";
  if (seconds < 0.9995) return numberText(seconds * 1e3) + " ms";
  return numberText(seconds) + " s";
}

std::string megabytesText(double bytes) { return fmt::format("{:.1f}", bytes / 1e6); }

std::string percentText(double part) { return fmt::format("{:.0f} %", 100 * part); }

}  // namespace colla::bench
