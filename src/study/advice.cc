#include "study/advice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace colla::study {
namespace {

constexpr double kApart = 1.05;
constexpr double kApartOfOne = 1.10;
// More workers pay if they are so much faster, or faster at all for hardly more core-seconds.
constexpr double kWorthwhile = 1.25;
constexpr double kSameCost = 1.05;

// What variants are compared by: less is better.
struct Measure {
  bool time = false;  // To the loss, else of a sample.

  Spread of(const Summary& summary) const {
    if (time) return summary.secondsToLoss;
    const Spread& rate = summary.samplesPerSecond;
    if (!rate.known() || rate.low <= 0) return {};
    return {1 / rate.median, 1 / rate.high, 1 / rate.low, rate.runs};
  }
};

Spread timeOfSample(const Summary& summary) { return Measure{false}.of(summary); }

// Core-seconds to the loss or, without one, for a sample.
Spread costOf(const Summary& summary, const Measure& measure) {
  if (measure.time) return summary.coreSecondsToLoss;
  const Spread time = timeOfSample(summary);
  if (!time.known() || !summary.cores.known()) return {};
  const double cores = summary.cores.median;
  return {time.median * cores, time.low * cores, time.high * cores, time.runs};
}

bool less(const Spread& a, const Spread& b) {
  return a.known() && b.known() && a.median < b.median && differ(a, b);
}

// Whether `a` is to be taken before `b`, where neither is faster: throughput, then cost, then the
// strategy that promises more, then the one with fewer processes.
bool before(const Summary& a, const Summary& b, const Measure& measure) {
  if (less(timeOfSample(a), timeOfSample(b))) return true;
  if (less(timeOfSample(b), timeOfSample(a))) return false;
  const Spread costA = costOf(a, measure);
  const Spread costB = costOf(b, measure);
  if (less(costA, costB)) return true;
  if (less(costB, costA)) return false;
  if (a.variant.exact != b.variant.exact) return a.variant.exact;
  return a.variant.processes() < b.variant.processes();
}

std::string times(double ratio) {
  return ratio < 10 ? fmt::format("{:.1f}", ratio) : fmt::format("{:.0f}", ratio);
}

// "1.4 times as fast as one worker".
std::string speedText(double speedup) { return fmt::format("{} times as fast", times(speedup)); }

std::string costText(double ratio) {
  if (ratio <= 0) return "at a cost that was not measured";
  return fmt::format("at {} times its cost in core-seconds", times(ratio));
}

void warn(const Figures& figures, int cores, Advice& advice) {
  std::vector<std::string> crowded;
  std::vector<std::string> missed;
  int runs = 0;
  for (const Summary& summary : figures.summaries) {
    runs = std::max(runs, summary.done);
    if (summary.oversubscribed) crowded.push_back(summary.variant.label);
    if (!summary.failures.empty()) {
      advice.warnings.push_back(
          fmt::format("{} of {} runs of {} failed: {}", summary.failures.size(),
                      summary.failures.size() + static_cast<std::size_t>(summary.done),
                      summary.variant.label, summary.failures.front()));
    }
    if (summary.missedLoss && summary.variant.purpose == Purpose::kStrategy) {
      missed.push_back(summary.variant.label);
    }
  }
  if (!missed.empty()) {
    advice.warnings.push_back(
        fmt::format("{} did not come down to the loss that the exact strategies reach, and cannot "
                    "be recommended.",
                    fmt::join(missed, "; ")));
  }
  if (!crowded.empty()) {
    advice.warnings.push_back(fmt::format(
        "This machine has {} core{} and is oversubscribed by {}: their processes share cores. What "
        "they "
        "would reach on more cores, or on several hosts, can't be concluded from this study.",
        cores, cores == 1 ? "" : "s", fmt::join(crowded, "; ")));
  }
  if (figures.otherCores > 0.25) {
    advice.warnings.push_back(
        fmt::format("Other programs kept {:.1f} cores of this machine busy while the trainings "
                    "ran: times are too "
                    "long, and differences may come from them.",
                    figures.otherCores));
  }
  if (runs == 1) {
    advice.warnings.push_back(
        "Every variant ran once, so the spread between runs is unknown: differences of up to 10 % "
        "count "
        "as ties.");
  }
}

}  // namespace

bool differ(const Spread& a, const Spread& b) {
  const double apart = a.runs > 1 && b.runs > 1 ? kApart : kApartOfOne;
  const double low = std::min(a.median, b.median);
  const double high = std::max(a.median, b.median);
  if (high < low * apart) return false;
  return a.median < b.median ? a.high < b.low : b.high < a.low;
}

Advice adviseFrom(const Figures& figures, int cores) {
  Advice advice;
  warn(figures, cores, advice);
  const Summary* base = figures.baseline();
  if (base == nullptr || base->done == 0) {
    advice.headline =
        "Nothing can be recommended: there is no finished run with one worker to compare with.";
    return advice;
  }
  const Measure measure{.time = base->secondsToLoss.known()};
  advice.measure = measure.time ? "time to loss" : "throughput";
  std::vector<const Summary*> contenders;
  for (const Summary& summary : figures.summaries) {
    if (summary.variant.purpose != Purpose::kStrategy || summary.variant.workers < 2) continue;
    if (measure.of(summary).known()) contenders.push_back(&summary);
  }
  advice.decision = base->variant.id;
  if (contenders.empty()) {
    advice.headline = fmt::format(
        "Use {}: no variant with more workers has finished a run to compare.", base->variant.label);
    return advice;
  }
  const Summary* fastest = *std::ranges::min_element(
      contenders, {}, [&](const Summary* each) { return measure.of(*each).median; });
  const Summary* best = fastest;
  for (const Summary* each : contenders) {
    if (each == fastest || differ(measure.of(*each), measure.of(*fastest))) continue;
    if (before(*each, *best, measure)) best = each;
  }
  for (const Summary* each : contenders) {
    if (each != best && !differ(measure.of(*each), measure.of(*best))) {
      advice.ties.push_back(each->variant.id);
    }
  }
  advice.best = best->variant.id;
  advice.speedup = measure.of(*base).median / measure.of(*best).median;
  const Spread baseCost = costOf(*base, measure);
  const Spread bestCost = costOf(*best, measure);
  if (baseCost.known() && bestCost.known() && baseCost.median > 0) {
    advice.costRatio = bestCost.median / baseCost.median;
  }

  const bool faster = less(measure.of(*best), measure.of(*base));
  const bool cheap = advice.costRatio > 0 && advice.costRatio <= kSameCost;
  if (faster && (advice.speedup >= kWorthwhile || cheap)) {
    advice.decision = best->variant.id;
    advice.headline = fmt::format("Use {}: {} as one worker, {}.", best->variant.label,
                                  speedText(advice.speedup), costText(advice.costRatio));
  } else if (faster) {
    advice.headline =
        fmt::format("Use {}: {} would be {}, {}.", base->variant.label, best->variant.label,
                    speedText(advice.speedup), costText(advice.costRatio));
  } else if (less(measure.of(*base), measure.of(*best))) {
    advice.headline =
        fmt::format("Use {}: the fastest with more workers, {}, is slower ({}).",
                    base->variant.label, best->variant.label, speedText(advice.speedup));
  } else {
    advice.headline =
        fmt::format("Use {}: {} can't be told from it in speed ({}).", base->variant.label,
                    best->variant.label, speedText(advice.speedup));
  }
  advice.reasons.push_back(
      measure.time
          ? fmt::format(
                "Variants are compared by the seconds of training until the {} loss is the one "
                "that every exact strategy reaches.",
                figures.testLoss ? "test" : "training")
          : "Variants are compared by samples per second, since these runs have no losses to "
            "compare.");
  if (!advice.ties.empty()) {
    std::vector<std::string> labels;
    for (const std::string& id : advice.ties) labels.push_back(figures.find(id)->variant.label);
    advice.reasons.push_back(
        fmt::format("{} can't be told from {} by that: the difference lies inside the spread. "
                    "Throughput, then cost, "
                    "then what is promised decides.",
                    fmt::join(labels, "; "), best->variant.label));
  }
  return advice;
}

}  // namespace colla::study
