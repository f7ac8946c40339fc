#include "bench/train_report.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/text_table.h"
#include "bench/units.h"

namespace colla::bench {
namespace {

constexpr std::array kOurs = {"colla-1", "colla-2"};

// The measurement of `system` at the point of `m`; null if there is none.
const TrainMeasurement* beside(std::span<const TrainMeasurement> measurements,
                               const TrainMeasurement& m, const std::string& system) {
  for (const TrainMeasurement& other : measurements) {
    if (other.system == system && other.model == m.model && other.batch == m.batch) return &other;
  }
  return nullptr;
}

// Where the machine is noisy it may be less than nothing.
std::string exposedText(double seconds) {
  return fmt::format("{}{}", seconds < 0 ? "-" : "", durationText(std::abs(seconds)));
}

}  // namespace

std::string trainTable(std::span<const TrainMeasurement> measurements,
                       std::span<const ReaderMeasurement> readers) {
  TableRow header = {"model", "batch", "system", "samples/s", "step"};
  for (const char* system : kOurs) header.push_back(fmt::format("{}/it", system));
  header.insert(header.end(), {"exposed", "PSS MB"});

  std::vector<TableRow> rows = {header};
  for (const TrainMeasurement& m : measurements) {
    TableRow row = {m.model, toString(m.batch), m.system, numberText(m.samplesPerSecond()),
                    durationText(m.stepSeconds)};
    for (const char* system : kOurs) {
      const TrainMeasurement* const ours = beside(measurements, m, system);
      const bool meaningful = ours != nullptr && m.system != system;
      row.push_back(meaningful ? numberText(ours->samplesPerSecond() / m.samplesPerSecond()) + "x"
                               : "");
    }
    row.push_back(m.exposedSeconds ? exposedText(*m.exposedSeconds) : "");
    row.push_back(fmt::format("{:.1f}", static_cast<double>(m.pssBytes) / 1e6));
    rows.push_back(std::move(row));
  }
  for (const ReaderMeasurement& reader : readers) {
    TableRow row = {reader.model, "", "reader", numberText(reader.samplesPerSecond)};
    row.resize(header.size());
    rows.push_back(std::move(row));
  }
  return aligned(rows, {0, 2});
}

std::string trainJson(std::span<const TrainMeasurement> measurements,
                      std::span<const ReaderMeasurement> readers) {
  auto list = nlohmann::ordered_json::array();
  for (const TrainMeasurement& m : measurements) {
    auto& one = list.emplace_back(nlohmann::ordered_json{{"system", m.system},
                                                         {"model", m.model},
                                                         {"batch", m.batch.ofAll(m.workers)},
                                                         {"workers", m.workers},
                                                         {"samples_per_s", m.samplesPerSecond()},
                                                         {"step_seconds", m.stepSeconds},
                                                         {"pss_bytes", m.pssBytes}});
    if (m.batch.perWorker) one["batch_per_worker"] = m.batch.count;
    if (m.exposedSeconds) one["exposed_seconds"] = *m.exposedSeconds;
    one["loss"] = m.loss;
    one["rounds"] = m.rounds;
    one["steps"] = m.steps;
  }
  for (const ReaderMeasurement& reader : readers) {
    list.push_back({{"system", "reader"},
                    {"model", reader.model},
                    {"samples_per_s", reader.samplesPerSecond}});
  }
  return list.dump(2) + "\n";
}

}  // namespace colla::bench
