#include "study/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "base/invalid.h"
#include "base/readable.h"
#include "study/peers.h"

namespace colla::study {
namespace {

// Nobody tries peers out before the plan. Importing them and starting their processes takes about
// this long.
constexpr double kPeerStart = 20;

std::string workersOf(int workers) {
  return fmt::format("{} worker{}", workers, workers == 1 ? "" : "s");
}

std::string countOf(std::size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

// A smaller model of the same family, as `colla train` takes it.
struct Smaller {
  std::string_view model;
  std::string_view smaller;
  std::vector<std::string> flags;
};
const std::vector<Smaller>& smallerModels() {
  static const std::vector<Smaller> all = {
      {"resnet152v2", "resnet101v2", {}},
      {"resnet101v2", "resnet50v2", {}},
      {"resnet50v2", "resnet50v2", {"--input", "64x64"}},
      {"mlp", "snn", {}},
      {"snn", "softmax", {}},
      {"deepfam", "deepfam", {"--filters", "64", "--hidden", "500"}},
      {"lm", "lm", {"--units", "128", "--projection", "64", "--embedding", "64"}},
      {"im2txt", "im2txt", {"--input", "107x107"}},
  };
  return all;
}

std::int64_t batchOf(const Options& options, int workers, std::int64_t own) {
  const std::int64_t batch = options.batch > 0 ? options.batch : own;
  return options.batchPerWorker ? batch * workers : batch;
}

Variant singleOf(const Options& options, const Cores& machine, std::int64_t batch) {
  Variant variant;
  variant.id = "single-1";
  variant.label = "one worker";
  variant.purpose = Purpose::kBaseline;
  variant.threads = machine.cores;
  variant.batch = batchOf(options, 1, batch);
  variant.steps = options.steps;
  variant.evalEvery =
      options.evalEvery > 0 ? options.evalEvery : std::max<std::int64_t>(options.steps / 10, 1);
  variant.saveEvery = options.saveEvery;
  variant.warmUp = options.warmUp;
  variant.exact = true;
  return variant;
}

// One process with the slices of `workers` workers, and their threads for each.
Variant togetherOf(const Options& options, const Cores& machine, const Variant& single, int workers,
                   std::int64_t batch) {
  Variant variant = single;
  variant.id = fmt::format("single-{}-slices", workers);
  variant.label = fmt::format("one worker, {} slices", workers);
  variant.purpose = Purpose::kStrategy;
  variant.slices = workers;
  variant.threads = std::max(1, machine.cores / workers);
  variant.batch = batchOf(options, workers, batch);
  variant.remark = fmt::format("one process runs the slices of {} workers in turn", workers);
  return variant;
}

void addAlternatives(const Options& options, const Cores& machine, const Variant& single,
                     int mostWorkers, std::vector<Variant>& variants) {
  Variant larger = single;
  larger.purpose = Purpose::kAlternative;
  larger.exact = false;
  larger.threads = options.singleThreads > 0 ? options.singleThreads : single.threads;
  if (larger.batch > 0) {
    larger.id = "larger-batch";
    larger.label = fmt::format("one worker, batch {}", larger.batch * 4);
    larger.batch *= 4;
    larger.steps = std::max<std::int64_t>(single.steps / 4, 4);
    larger.evalEvery = std::max<std::int64_t>(single.evalEvery / 4, 1);
    larger.remark = "a four times larger batch, as many samples in all";
    variants.push_back(larger);
  }
  Variant half = single;
  half.threads = larger.threads;
  half.purpose = Purpose::kAlternative;
  half.exact = false;
  half.id = "bfloat16";
  half.label = "one worker, bfloat16";
  half.options = {"--bfloat16"};
  half.remark = "forward pass and loss in bfloat16";
  variants.push_back(half);
  const auto smaller = std::ranges::find(smallerModels(), options.program.name(), &Smaller::model);
  if (options.program.kind == Program::Kind::kModel && smaller != smallerModels().end()) {
    Variant small = single;
    small.threads = larger.threads;
    small.purpose = Purpose::kAlternative;
    small.exact = false;
    small.id = "smaller-model";
    small.label = fmt::format("one worker, {}{}{}", smaller->smaller,
                              smaller->flags.empty() ? "" : " ", fmt::join(smaller->flags, " "));
    small.options = smaller->flags;
    small.remark = fmt::format("a smaller model of the family: {}", smaller->smaller);
    small.model = smaller->smaller;
    variants.push_back(small);
  }
  // The model's own data has no name here.
  for (const int percent : {10, 30}) {
    if (options.settings.data.empty()) break;
    Variant less = single;
    less.threads = larger.threads;
    less.purpose = Purpose::kAlternative;
    less.exact = false;
    less.id = fmt::format("data-{}", percent);
    less.label = fmt::format("one worker, {} % of the data", percent);
    less.data = fmt::format("share:{}%:{}", percent, options.settings.data);
    less.remark = "as many steps, so each sample is seen more often";
    variants.push_back(less);
  }
  if (mostWorkers > 1) {
    Variant apart = single;
    apart.purpose = Purpose::kAlternative;
    apart.exact = false;
    apart.id = fmt::format("side-by-side-{}", mostWorkers);
    apart.label = fmt::format("{} trainings side by side", mostWorkers);
    apart.copies = mostWorkers;
    apart.threads = std::max(1, machine.cores / mostWorkers);
    apart.remark = "experiments that know nothing of each other, each on its share of the cores";
    variants.push_back(apart);
  }
}

// Behind Colla's variants with as many workers.
void addPeers(const Options& options, const Cores& machine, const Variant& single,
              std::int64_t batch, std::vector<Variant>& variants) {
  for (const int workers : options.workers) {
    Variant like = single;
    like.workers = workers;
    like.threads = std::max(1, machine.cores / workers);
    like.batch = batchOf(options, workers, batch);
    std::ranges::copy(peerVariants(options, like), std::back_inserter(variants));
  }
}

}  // namespace

double Plan::seconds() const {
  return std::accumulate(runs.begin(), runs.end(), 0.0,
                         [](double sum, const PlannedRun& run) { return sum + run.seconds; });
}

const Variant& Plan::variant(const std::string& id) const {
  return *std::ranges::find(variants, id, &Variant::id);
}

Result<std::vector<Variant>> variantsOf(const Options& options, const Cores& machine,
                                        std::int64_t batch) {
  std::vector<StrategyChoice> choices;
  for (const std::string& text : options.strategies) {
    COLLA_TRY_ASSIGN(choices.emplace_back(), parseChoice(text));
  }
  const bool script = options.program.kind == Program::Kind::kScript;
  if (options.strategies.empty()) {
    for (const StrategyTraits& traits : strategies()) choices.push_back({traits.strategy, {}});
  }
  const Variant single = singleOf(options, machine, batch);
  std::vector<Variant> variants = {single};
  // Small models are faster with one thread: then that is what more workers have to beat.
  if (!script && machine.cores > 1) {
    Variant thread = single;
    thread.id = "single-1-thread";
    thread.label = "one worker, 1 thread";
    thread.threads = 1;
    variants.push_back(thread);
  }
  const int most = options.workers.empty() ? 1 : std::ranges::max(options.workers);
  for (const int workers : options.workers) {
    if (workers == 1) continue;
    if (options.together && !script)
      variants.push_back(togetherOf(options, machine, single, workers, batch));
    for (const StrategyChoice& choice : choices) {
      const StrategyTraits& traits = traitsOf(choice.strategy);
      if (traits.workers == WorkerKind::kOnlyOne) continue;
      // Workers of a script are processes.
      if (script && traits.workers != WorkerKind::kProcesses) continue;
      Variant variant;
      variant.id = fmt::format("{}-{}", choice.id(), workers);
      variant.label = fmt::format("{}, {}", choice.name(), workersOf(workers));
      variant.strategy = std::string(traits.name);
      variant.options = choice.options;
      variant.workers = workers;
      variant.slices = workers;
      variant.threads = std::max(1, machine.cores / workers);
      variant.servers = traits.servers ? options.servers : 0;
      variant.batch = batchOf(options, workers, batch);
      variant.exact = choice.exact();
      // An update of ps-async has the samples of one worker.
      const std::int64_t updates = traits.servers && !traits.inStep ? workers : 1;
      variant.steps = single.steps * updates;
      variant.evalEvery = single.evalEvery * updates;
      variant.saveEvery = single.saveEvery * updates;
      variant.warmUp = single.warmUp * updates;
      if (updates > 1) variant.remark = "an update has the samples of one worker";
      variants.push_back(variant);
    }
  }
  if (!script) addPeers(options, machine, single, batch, variants);
  for (const std::string& text : options.slowedStrategies) {
    COLLA_TRY_ASSIGN(const StrategyChoice choice, parseChoice(text));
    const auto like = std::ranges::find_if(variants, [&](const Variant& variant) {
      return variant.workers == most && variant.strategy == toString(choice.strategy);
    });
    if (most == 1 || like == variants.end()) continue;
    Variant slowed = *like;
    slowed.id = fmt::format("{}-{}-slowed", choice.id(), most);
    slowed.label = fmt::format("{}, {}, one slowed", choice.name(), workersOf(most));
    slowed.options = choice.options;
    slowed.exact = choice.exact();
    slowed.slowed = true;
    slowed.purpose = Purpose::kAlternative;
    slowed.remark = "the last worker stands still for half of the time, on purpose";
    variants.push_back(slowed);
  }
  if (options.alternatives && !script) {
    addAlternatives(options, machine, single, most, variants);
  }
  std::set<std::string> ids;
  for (const Variant& variant : variants) {
    if (!ids.insert(variant.id).second) {
      return invalid("{} is named twice in --strategies or --workers", variant.label);
    }
  }
  return variants;
}

double estimate(const Variant& variant, const Probes& probes) {
  auto own = probes.find(variant.id);
  if (own == probes.end()) own = probes.find(variant.strategy);
  const Probe& probe = own != probes.end() ? own->second : probes.at("single");
  const double start = variant.purpose == Purpose::kPeer ? kPeerStart : probe.startSeconds;
  // A step's time grows with its samples; more workers than the probe had make it no longer.
  const double samples = probe.batch > 0 && variant.batch > 0
                             ? static_cast<double>(variant.batch) / static_cast<double>(probe.batch)
                             : 1;
  // Updates of a strategy that is not in step have a worker's share each.
  const double share = variant.inStep() ? 1 : 1.0 / variant.workers;
  const double step = probe.stepSeconds * samples * share * variant.copies;
  const double evaluations =
      variant.evalEvery > 0 ? static_cast<double>(variant.steps / variant.evalEvery) + 1 : 0;
  return start + step * static_cast<double>(variant.steps) +
         evaluations * probes.at("single").evaluationSeconds * variant.copies;
}

Plan makePlan(const std::vector<Variant>& variants, const Probes& probes, int repeat,
              double budgetSeconds) {
  Plan plan;
  plan.variants = variants;
  int repeats = repeat;
  const auto total = [&] {
    double sum = 0;
    for (const Variant& variant : plan.variants) sum += repeats * estimate(variant, probes);
    return sum;
  };
  const auto fits = [&] { return total() <= budgetSeconds; };
  const auto drop = [&](const auto& which, const std::string& why) {
    std::vector<std::string> dropped;
    std::erase_if(plan.variants, [&](const Variant& variant) {
      if (variant.purpose == Purpose::kBaseline || !which(variant)) return false;
      dropped.push_back(variant.label);
      return true;
    });
    if (!dropped.empty()) {
      plan.leftOut.push_back(fmt::format("{}: {}.", why, fmt::join(dropped, "; ")));
    }
  };

  while (!fits() && repeats > 2) --repeats;
  if (!fits()) {
    drop([](const Variant& variant) { return variant.purpose == Purpose::kAlternative; },
         "The budget has no room for alternatives to more workers");
  }
  int most = 1;
  for (const Variant& variant : plan.variants) most = std::max(most, variant.workers);
  if (!fits()) {
    drop([&](const Variant& variant) { return variant.slices < most; },
         fmt::format("The budget has room for {} alone", workersOf(most)));
  }
  while (!fits() && repeats > 1) --repeats;
  while (!fits() && plan.variants.size() > 2) {
    const auto slowest = std::ranges::max_element(plan.variants, {}, [&](const Variant& variant) {
      return variant.purpose == Purpose::kBaseline ? 0 : estimate(variant, probes);
    });
    const std::string id = slowest->id;
    drop([&](const Variant& variant) { return variant.id == id; },
         "The budget has no room for the slowest");
  }
  if (repeats < repeat) {
    plan.leftOut.push_back(fmt::format("The budget has room for {} of each variant, not {}.",
                                       countOf(static_cast<std::size_t>(repeats), "run"), repeat));
  }
  if (!fits()) {
    plan.leftOut.push_back(fmt::format(
        "Even so the runs take {:.0f} minutes, more than the budget of {:.0f}: those that "
        "have not begun by then are left out.",
        total() / 60, budgetSeconds / 60));
  }
  for (int round = 0; round < repeats; ++round) {
    for (const Variant& variant : plan.variants) {
      plan.runs.push_back({variant.id, round, estimate(variant, probes)});
    }
  }
  return plan;
}

}  // namespace colla::study
