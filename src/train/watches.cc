#include "train/watches.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

#include "base/invalid.h"
#include "base/nearest.h"
#include "colla/error.h"
#include "optim/power.h"

namespace colla {

Result<EarlyStop> parseEarlyStop(std::string_view text) {
  const auto wrong = [&](std::string_view why) {
    return invalid("--early-stop is \"{}\", but {}", text, why);
  };
  auto next = [rest = text]() mutable -> std::string_view {
    const std::string_view word = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    return word;
  };
  const auto read = [](std::string_view word, auto& number) {
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    return error == std::errc() && end == word.data() + word.size();
  };
  const auto words = std::ranges::count(text, ':') + 1;
  EarlyStop stop{.metric = std::string(next())};
  if (stop.metric.empty() || words > 3) return wrong("takes METRIC[:PATIENCE[:MIN-DELTA]]");
  if (words > 1 && (!read(next(), stop.patience) || stop.patience < 1)) {
    return wrong("its patience must be a number of evaluations, 1 or more");
  }
  if (words > 2 &&
      (!read(next(), stop.minDelta) || !std::isfinite(stop.minDelta) || stop.minDelta < 0)) {
    return wrong("its least difference must be a number, 0 or more");
  }
  return stop;
}

namespace train {
namespace {

constexpr char kEarlyStop[] = "early_stop";
constexpr char kKeepBest[] = "best";
constexpr char kPlateau[] = "plateau";
constexpr char kEvaluatedAt[] = "evaluated_at";

// Progress lines call the test part's metrics so; either name is meant.
std::string_view withoutPrefix(std::string_view metric) {
  constexpr std::string_view kTestPart = "val_";
  return metric.starts_with(kTestPart) ? metric.substr(kTestPart.size()) : metric;
}

Watch watchOf(const std::string& flag, const std::string& metric, std::int64_t patience,
              double minDelta, const std::vector<std::string>& metrics,
              const std::function<bool(const std::string&)>& lowerIsBetter) {
  const auto found = std::ranges::find(metrics, withoutPrefix(metric));
  if (found == metrics.end()) {
    throw Error(StatusCode::kInvalidArgument,
                fmt::format("{}: the model has no metric \"{}\"; there is {}{}", flag, metric,
                            fmt::join(metrics, ", "), didYouMean(metric, metrics)));
  }
  return {.metric = *found,
          .minDelta = minDelta,
          .patience = patience,
          .falls = *found == "loss" || lowerIsBetter(*found),
          .number = static_cast<std::size_t>(found - metrics.begin())};
}

// Numbers in their shortest text that reads back as the same bits; the metric, which may have any
// characters, comes last.
std::string textOf(const Watch& watch) {
  return fmt::format("{} {} {} {} {}", *watch.best, watch.bestStep, watch.since, watch.plateaus,
                     watch.metric);
}

// Of a different metric, or damaged: the watch begins anew.
void read(const std::string& text, Watch& watch) {
  std::istringstream words(text);
  std::string best;
  Watch read = watch;
  words >> best >> read.bestStep >> read.since >> read.plateaus;
  std::string metric;
  words.get();
  std::getline(words, metric);
  double value = 0;
  const auto [end, error] = std::from_chars(best.data(), best.data() + best.size(), value);
  if (metric != watch.metric || error != std::errc() || end != best.data() + best.size()) return;
  read.best = value;
  watch = read;
}

std::string unimproved(const Watch& watch) {
  return fmt::format("{} evaluation{} brought no better {} than {:.6g}, that of step {}",
                     watch.since, watch.since == 1 ? "" : "s", watch.metric,
                     watch.best.value_or(std::nan("")), watch.bestStep);
}

}  // namespace

bool Watch::takes(std::int64_t step, double value) {
  const bool better =
      !best ? !std::isnan(value) : (falls ? *best - value : value - *best) > minDelta;
  if (better) {
    best = value;
    bestStep = step;
    since = 0;
  } else {
    ++since;
  }
  return better;
}

Watches::Watches(const TrainOptions& options, const Schedule& schedule,
                 const std::vector<std::string>& metrics,
                 const std::function<bool(const std::string&)>& lowerIsBetter) {
  const auto add = [&](const char* name, const std::string& flag, const std::string& metric,
                       std::int64_t patience, double minDelta) {
    watches_[name] = watchOf(flag, metric, patience, minDelta, metrics, lowerIsBetter);
  };
  if (const auto& stop = options.earlyStop) {
    add(kEarlyStop, "--early-stop", stop->metric, stop->patience, stop->minDelta);
  }
  if (!options.keepBest.empty()) add(kKeepBest, "--keep-best", options.keepBest, 0, 0);
  if (const auto* shape = std::get_if<PlateauRate>(&schedule.shape)) {
    add(kPlateau, "--lr-schedule plateau", shape->metric, shape->patience, shape->minDelta);
    plateauFactor_ = shape->factor;
  }
}

// The end of a run that goes on later is evaluated too, where the whole run evaluates nothing: that
// counts as a candidate for the best one, and for nothing else.
Watches::Verdict Watches::evaluated(std::int64_t step, const std::vector<double>& values,
                                    bool regular) {
  Verdict verdict;
  if (step <= evaluatedAt_) return verdict;
  evaluatedAt_ = step;
  for (auto& [name, watch] : watches_) {
    if (name != kKeepBest && !regular) continue;
    const bool better = watch.takes(step, values[watch.number]);
    if (name == kKeepBest) verdict.best = better;
    if (name != kPlateau || watch.since < watch.patience) continue;
    verdict.plateau = true;
    ++watch.plateaus;
    watch.since = 0;
  }
  return verdict;
}

std::string Watches::stops() const {
  const auto found = watches_.find(kEarlyStop);
  if (found == watches_.end() || found->second.since < found->second.patience) return "";
  return unimproved(found->second);
}

double Watches::plateau() const {
  const auto found = watches_.find(kPlateau);
  return found == watches_.end() ? 1 : optim::power(plateauFactor_, found->second.plateaus);
}

std::string Watches::plateauText() const {
  Watch watch = watches_.at(kPlateau);
  watch.since = watch.patience;
  return fmt::format("{}: from now on the learning rate is multiplied by {:.6g}", unimproved(watch),
                     plateau());
}

void Watches::keptBest(std::optional<std::int64_t> step) {
  Watch& watch = watches_.at(kKeepBest);
  watch.bestStep = step.value_or(-1);
  if (!step) watch.best.reset();
}

std::optional<std::int64_t> Watches::bestStep() const {
  const auto found = watches_.find(kKeepBest);
  if (found == watches_.end() || !found->second.best) return std::nullopt;
  return found->second.bestStep;
}

Watches::State Watches::state() const {
  State state = others_;
  for (const auto& [name, watch] : watches_) {
    if (watch.best) state[name] = textOf(watch);
  }
  if (!state.empty()) state[kEvaluatedAt] = std::to_string(evaluatedAt_);
  return state;
}

void Watches::restore(const State& state) {
  for (const char* name : {kEarlyStop, kKeepBest, kPlateau}) {
    const auto found = state.find(name);
    if (found == state.end()) continue;
    const auto watch = watches_.find(name);
    if (watch == watches_.end()) {
      others_.insert(*found);
    } else {
      read(found->second, watch->second);
    }
  }
  if (const auto at = state.find(kEvaluatedAt); at != state.end()) {
    std::from_chars(at->second.data(), at->second.data() + at->second.size(), evaluatedAt_);
  }
}

Watches watchesOf(const Model& model, const TrainOptions& options, const Schedule& schedule,
                  bool evaluates) {
  std::vector<std::string> names = model.metrics();
  names.insert(names.begin(), "loss");
  Watches watches(options, schedule, names,
                  [&](const std::string& metric) { return model.lowerIsBetter(metric); });
  if (evaluates || !watches.any()) return watches;
  throw Error(StatusCode::kInvalidArgument,
              "--early-stop, --keep-best and --lr-schedule plateau go by evaluations, but the data "
              "has no test part");
}

std::vector<double> Watches::numbers() const {
  std::vector<double> numbers = {static_cast<double>(evaluatedAt_)};
  for (const auto& [name, watch] : watches_) {
    numbers.insert(numbers.end(),
                   {watch.best.value_or(std::nan("")), static_cast<double>(watch.bestStep),
                    static_cast<double>(watch.since), static_cast<double>(watch.plateaus)});
  }
  return numbers;
}

void Watches::setNumbers(const std::vector<double>& numbers) {
  auto next = numbers.begin();
  evaluatedAt_ = static_cast<std::int64_t>(*next++);
  for (auto& [name, watch] : watches_) {
    watch.best = std::isnan(*next) ? std::nullopt : std::optional(*next);
    watch.bestStep = static_cast<std::int64_t>(*++next);
    watch.since = static_cast<std::int64_t>(*++next);
    watch.plateaus = static_cast<std::int64_t>(*++next);
    ++next;
  }
}

}  // namespace train
}  // namespace colla
