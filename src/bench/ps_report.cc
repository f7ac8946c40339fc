#include "bench/ps_report.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "base/text_table.h"
#include "bench/units.h"

namespace colla::bench {
namespace {

constexpr std::array kOurs = {"colla-ps-sync", "colla-ps-async"};

const PsMeasurement* beside(std::span<const PsMeasurement> all, const TrainMeasurement& m,
                            const std::string& system) {
  for (const PsMeasurement& other : all) {
    const TrainMeasurement& o = other.training;
    if (o.system == system && o.model == m.model && o.batch == m.batch) return &other;
  }
  return nullptr;
}

std::string megabytes(std::size_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / 1e6);
}

std::string trainings(std::span<const PsMeasurement> all) {
  TableRow header = {"model", "batch", "system", "samples/s", "step"};
  for (const char* system : kOurs) header.push_back(fmt::format("{}/it", system));
  header.insert(header.end(), {"worker PSS MB", "server PSS MB"});
  std::vector<TableRow> rows = {header};
  for (const PsMeasurement& one : all) {
    const TrainMeasurement& m = one.training;
    TableRow row = {m.model, toString(m.batch), m.system,
                    fmt::format("{:.0f}", m.samplesPerSecond()), durationText(m.stepSeconds)};
    for (const char* system : kOurs) {
      const PsMeasurement* const ours = beside(all, m, system);
      const bool meaningful = ours != nullptr && m.system != system;
      row.push_back(meaningful ? numberText(m.stepSeconds / ours->training.stepSeconds) + "x" : "");
    }
    row.push_back(megabytes(m.pssBytes));
    row.push_back(one.serverPssBytes > 0 ? megabytes(one.serverPssBytes) : "");
    rows.push_back(std::move(row));
  }
  return aligned(rows, {0, 2});
}

// The speed of memory that a push is compared with: all cores', if there are several.
double memorySpeed(std::span<const PushMeasurement> all) {
  double speed = 0;
  for (const PushMeasurement& m : all) {
    if (m.system.starts_with("memory")) speed = m.bytesPerSecond;
  }
  return speed;
}

std::string pushes(std::span<const PushMeasurement> all) {
  const double memory = memorySpeed(all);
  std::vector<TableRow> rows = {{"system", "workers", "bytes", "step", "GB/s", "of memory"}};
  for (const PushMeasurement& m : all) {
    const bool server = !m.system.starts_with("memory");
    rows.push_back(
        {m.system, fmt::format("{}", m.workers), bytesText(m.bytes), durationText(m.stepSeconds),
         numberText(m.bytesPerSecond / 1e9),
         server && memory > 0 ? fmt::format("{:.0f} %", 100 * m.bytesPerSecond / memory) : ""});
  }
  return aligned(rows, {0});
}

}  // namespace

std::string psTable(std::span<const PsMeasurement> trained,
                    std::span<const PushMeasurement> pushed) {
  std::string text;
  if (!trained.empty()) text += trainings(trained);
  if (!trained.empty() && !pushed.empty()) text += "\n";
  if (!pushed.empty()) text += pushes(pushed);
  return text;
}

std::string psJson(std::span<const PsMeasurement> trained,
                   std::span<const PushMeasurement> pushed) {
  auto list = nlohmann::ordered_json::array();
  for (const PsMeasurement& one : trained) {
    const TrainMeasurement& m = one.training;
    auto& object = list.emplace_back(nlohmann::ordered_json{{"part", "train"},
                                                            {"system", m.system},
                                                            {"model", m.model},
                                                            {"batch", m.batch.ofAll(m.workers)},
                                                            {"workers", m.workers},
                                                            {"samples_per_s", m.samplesPerSecond()},
                                                            {"step_seconds", m.stepSeconds},
                                                            {"worker_pss_bytes", m.pssBytes}});
    if (one.serverPssBytes > 0) object["server_pss_bytes"] = one.serverPssBytes;
    object["loss"] = m.loss;
    object["rounds"] = m.rounds;
    object["steps"] = m.steps;
  }
  const double memory = memorySpeed(pushed);
  for (const PushMeasurement& m : pushed) {
    auto& object = list.emplace_back(nlohmann::ordered_json{{"part", "push"},
                                                            {"system", m.system},
                                                            {"workers", m.workers},
                                                            {"bytes", m.bytes},
                                                            {"step_seconds", m.stepSeconds},
                                                            {"bytes_per_s", m.bytesPerSecond}});
    if (memory > 0) object["of_memory"] = m.bytesPerSecond / memory;
    object["rounds"] = m.rounds;
    object["steps"] = m.steps;
  }
  return list.dump(2) + "\n";
}

}  // namespace colla::bench
