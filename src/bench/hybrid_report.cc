#include "bench/hybrid_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/text_table.h"
#include "bench/units.h"

namespace colla::bench {
namespace {

constexpr std::array kOurs = {"hybrid", "hybrid-shared"};

std::string megabytes(const std::optional<LinkLoad>& load, double LinkLoad::*direction) {
  return load ? numberText((*load).*direction / 1e6) : "";
}

}  // namespace

std::optional<double> HybridMeasurement::busiestLink() const {
  if (!worker) return {};
  double most = std::max(worker->sent, worker->received);
  if (server) most = std::max({most, server->sent, server->received});
  return most / (linkBytesPerSecond * stepSeconds);
}

void setLoads(HybridMeasurement& measurement, std::span<const LinkLoad> loads) {
  const auto workers = static_cast<std::size_t>(measurement.workers);
  LinkLoad most;
  for (const LinkLoad& load : loads.first(workers)) {
    most.sent = std::max(most.sent, load.sent);
    most.received = std::max(most.received, load.received);
  }
  measurement.worker = most;
  measurement.server.reset();
  if (loads.size() > workers) measurement.server = loads[workers];
}

std::string hybridTable(std::span<const HybridMeasurement> measurements) {
  TableRow header = {"system", "samples/s", "step"};
  for (const char* ours : kOurs) header.push_back(fmt::format("{}/it", ours));
  header.insert(header.end(), {"worker MB out", "in", "server MB out", "in", "busiest link"});
  std::vector<TableRow> rows = {header};
  for (const HybridMeasurement& m : measurements) {
    TableRow row = {m.system, numberText(m.samplesPerSecond()), durationText(m.stepSeconds)};
    for (const char* ours : kOurs) {
      const auto it = std::ranges::find(measurements, ours, &HybridMeasurement::system);
      const bool meaningful = it != measurements.end() && m.system != ours;
      row.push_back(meaningful ? numberText(m.stepSeconds / it->stepSeconds) + "x" : "");
    }
    for (const auto& load : {m.worker, m.server}) {
      row.push_back(megabytes(load, &LinkLoad::sent));
      row.push_back(megabytes(load, &LinkLoad::received));
    }
    const auto busiest = m.busiestLink();
    row.push_back(busiest ? fmt::format("{:.0f} %", 100 * *busiest) : "");
    rows.push_back(std::move(row));
  }
  return aligned(rows, {0});
}

std::string hybridJson(std::span<const HybridMeasurement> measurements) {
  auto list = nlohmann::ordered_json::array();
  for (const HybridMeasurement& m : measurements) {
    auto& object =
        list.emplace_back(nlohmann::ordered_json{{"system", m.system},
                                                 {"workers", m.workers},
                                                 {"batch", m.batch},
                                                 {"step_seconds", m.stepSeconds},
                                                 {"samples_per_s", m.samplesPerSecond()}});
    if (m.worker) {
      object["worker_sent_bytes"] = m.worker->sent;
      object["worker_received_bytes"] = m.worker->received;
    }
    if (m.server) {
      object["server_sent_bytes"] = m.server->sent;
      object["server_received_bytes"] = m.server->received;
    }
    if (const auto busiest = m.busiestLink()) object["busiest_link"] = *busiest;
    object["rounds"] = m.rounds;
    object["steps"] = m.steps;
  }
  return list.dump(2) + "\n";
}

}  // namespace colla::bench
