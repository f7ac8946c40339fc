#include "study/summary.h"

#include <algorithm>

namespace colla::study {
namespace {

// A run's last loss, where it has one.
std::optional<double> finalLossOf(const RunResult& run) {
  if (run.curves.empty()) return std::nullopt;
  const auto all = losses(run.curves.front());
  if (all.empty()) return std::nullopt;
  return all.back().loss;
}

std::optional<double> finalAccuracyOf(const RunResult& run) {
  if (run.curves.empty()) return std::nullopt;
  const auto& points = run.curves.front().points;
  const auto last = std::find_if(points.rbegin(), points.rend(),
                                 [](const CurvePoint& point) { return point.evaluated; });
  if (last == points.rend() || last->testAccuracy < 0) return std::nullopt;
  return last->testAccuracy;
}

std::vector<double> targetsOf(const std::vector<Variant>& variants,
                              const std::vector<RunResult>& runs) {
  std::vector<double> targets;
  for (const Variant& variant : variants) {
    if (!variant.exact || variant.purpose == Purpose::kAlternative) continue;
    for (const RunResult& run : runs) {
      if (run.variant != variant.id || !run.done()) continue;
      if (run.curves.empty()) continue;
      const auto loss = lowest(losses(run.curves.front()));
      if (!loss) continue;
      const auto repeat = static_cast<std::size_t>(run.repeat);
      if (targets.size() <= repeat) targets.resize(repeat + 1, -1e300);
      targets[repeat] = std::max(targets[repeat], *loss);
    }
  }
  return targets;
}

Summary summaryOf(const Variant& variant, const std::vector<RunResult>& runs,
                  const std::vector<double>& targets) {
  Summary summary;
  summary.variant = variant;
  std::vector<double> rates;
  std::vector<double> steps;
  std::vector<double> finals;
  std::vector<double> accuracies;
  std::vector<double> times;
  std::vector<double> cores;
  std::vector<double> costs;
  std::vector<double> workers;
  std::vector<double> servers;
  for (const RunResult& run : runs) {
    if (run.variant != variant.id) continue;
    if (!run.done()) {
      summary.failures.push_back(run.error);
      continue;
    }
    ++summary.done;
    rates.push_back(samplesPerSecond(run));
    if (!run.curves.empty()) steps.push_back(medianSecondsPerStep(run.curves.front()));
    const bool peer = variant.purpose == Purpose::kPeer;  // Whose losses are of the training.
    if (const auto loss = finalLossOf(run); loss && !peer) finals.push_back(*loss);
    if (const auto accuracy = finalAccuracyOf(run)) accuracies.push_back(*accuracy);
    cores.push_back(coresInUse(run));
    workers.push_back(peakMemory(run, "worker"));
    if (variant.servers > 0) servers.push_back(peakMemory(run, "ps"));
    const auto repeat = static_cast<std::size_t>(run.repeat);
    if (peer || run.curves.empty() || repeat >= targets.size()) continue;
    const auto seconds = secondsTo(targets[repeat], losses(run.curves.front()));
    if (!seconds) {
      summary.missedLoss = true;
      continue;
    }
    times.push_back(*seconds);
    if (cores.back() > 0) costs.push_back(*seconds * cores.back());
  }
  summary.samplesPerSecond = spreadOf(rates);
  summary.secondsPerStep = spreadOf(steps);
  summary.finalLoss = spreadOf(finals);
  summary.finalAccuracy = spreadOf(accuracies);
  summary.cores = spreadOf(cores);
  summary.workerMemory = spreadOf(workers);
  summary.serverMemory = spreadOf(servers);
  if (!summary.missedLoss) {
    summary.secondsToLoss = spreadOf(times);
    summary.coreSecondsToLoss = spreadOf(costs);
  }
  return summary;
}

}  // namespace

Spread spreadOf(std::vector<double> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  const double median =
      values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {median, values.front(), values.back(), static_cast<int>(values.size())};
}

const Summary* Figures::baseline() const {
  const Summary* best = nullptr;
  const auto rate = [](const Summary* summary) { return summary->samplesPerSecond.median; };
  for (const Summary& summary : summaries) {
    if (summary.variant.purpose != Purpose::kBaseline) continue;
    if (best == nullptr || rate(&summary) > rate(best)) best = &summary;
  }
  return best;
}

const Summary* Figures::find(const std::string& id) const {
  for (const Summary& summary : summaries) {
    if (summary.variant.id == id) return &summary;
  }
  return nullptr;
}

Figures figuresOf(const std::vector<Variant>& variants, const std::vector<RunResult>& runs,
                  int cores) {
  Figures figures;
  figures.targets = targetsOf(variants, runs);
  std::vector<double> others;
  for (const RunResult& run : runs) {
    if (run.done()) others.push_back(otherCores(run));
  }
  figures.otherCores = spreadOf(others).median;
  figures.testLoss = std::ranges::any_of(runs, [](const RunResult& run) {
    return !run.curves.empty() && run.curves.front().hasTest();
  });
  for (const Variant& variant : variants) {
    figures.summaries.push_back(summaryOf(variant, runs, figures.targets));
    // A server that waits takes no core, but it works while workers do.
    figures.summaries.back().oversubscribed = variant.busyThreads() > cores;
  }
  const Summary* base = figures.baseline();
  if (base == nullptr || base->samplesPerSecond.median <= 0) return figures;
  const double rate = base->samplesPerSecond.median;
  for (Summary& summary : figures.summaries) {
    if (!summary.samplesPerSecond.known()) continue;
    summary.speedup = summary.samplesPerSecond.median / rate;
    summary.efficiency = summary.speedup / (summary.variant.workers * summary.variant.copies);
  }
  return figures;
}

}  // namespace colla::study
