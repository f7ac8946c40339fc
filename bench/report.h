// What came out of a benchmark: a list of JSON objects ("records"), and a table for people that is
// made of the same objects.
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "bench/runner.h"
#include "colla/status.h"

namespace colla::bench {

using Record = nlohmann::ordered_json;
using Records = std::vector<Record>;

// One column of a table: the text for a record, or nothing where it has none.
struct Column {
  std::string title;
  std::function<std::string(const Record& record)> text;
  bool left = false;  // Text stands left, numbers right.
};
// The record's member `key`, as it is or through `show`; nothing where it has no such member.
Column textColumn(const std::string& title, const std::string& key);
Column numberColumn(const std::string& title, const std::string& key,
                    std::string (*show)(double value));

// Columns "SYSTEM/it": how many times as fast as a record's system each of these systems is at the
// same point.
struct Ratios {
  std::vector<std::string> systems;
  std::function<double(const Record& record)> rate;
  // A text that is the same for the records of one point.
  std::function<std::string(const Record& record)> point;
};

// A line for each record, in their order; the ratios stand between `before` and `after`.
std::string table(const Records& records, const std::vector<Column>& before, const Ratios& ratios,
                  const std::vector<Column>& after = {});

// The list as text.
std::string json(const Records& records);

// Adds what every record ends with: rounds, `countName` (iterations of a round), and the cores that
// each process kept busy.
void addRun(Record& record, const Measurement& outcome, const std::string& countName);

// "4M" is 4 * 1024 * 1024; suffixes K, M and G, or none. From 4 bytes (one float32) to 4 G.
Result<std::size_t> parseBytes(std::string_view text);

// The shortest exact form: "4M", "1000"; "-" for 0.
std::string bytesText(double bytes);
// Three digits and a unit: "412 ns", "1.35 us", "62.1 ms"; negative ones too.
std::string durationText(double seconds);
// "0.0013", "0.71", "13.5", "672": two or three digits.
std::string numberText(double value);
// Of bytes: "90.5".
std::string megabytesText(double bytes);
// "25 %".
std::string percentText(double part);

}  // namespace colla::bench
