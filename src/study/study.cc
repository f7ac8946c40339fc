#include "study/study.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <set>

#include "base/command_line.h"
#include "study/draw.h"
#include "study/folder.h"
#include "study/peers.h"
#include "study/probe.h"
#include "study/progress.h"
#include "study/report.h"
#include "study/run.h"

namespace colla::study {
namespace {

constexpr char kStudy[] = "colla study";
constexpr double kSecondsOfMinute = 60;
// A run may take so many times what was estimated before it is ended.
constexpr double kPatience = 10;
// A few steps say which number of threads is faster if it is by that much.
constexpr double kClearly = 1.2;

int fail(const Status& status) {
  if (status.code() == StatusCode::kInvalidArgument) return usageError(kStudy, status.message());
  fmt::print(stderr, "{}: {}\n", kStudy, status.message());
  return kExitFailure;
}

std::string localTime() {
  const std::time_t now = std::time(nullptr);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S%z}", fmt::localtime(now));
}

// One variant for each strategy with its options, with the most workers, the baseline first.
std::vector<Variant> toProbe(const std::vector<Variant>& variants) {
  std::vector<Variant> chosen;
  for (const Variant& variant : variants) {
    if (variant.purpose == Purpose::kAlternative || variant.purpose == Purpose::kPeer) continue;
    const auto same = std::ranges::find_if(chosen, [&](const Variant& each) {
      return each.strategy == variant.strategy && each.options == variant.options &&
             each.purpose == variant.purpose &&
             (variant.workers > 1 || each.threads == variant.threads);
    });
    if (same == chosen.end()) {
      chosen.push_back(variant);
    } else if (variant.workers > same->workers) {
      *same = variant;
    }
  }
  return chosen;
}

void printPlan(const Study& study) {
  const Plan& plan = study.plan;
  fmt::print("{} on {}: {} runs, about {}\n", study.options.program.name(),
             study.data.empty() ? "its own data" : study.data, plan.runs.size(),
             duration(plan.seconds()));
  for (const Variant& variant : plan.variants) {
    const auto repeats = std::ranges::count(plan.runs, variant.id, &PlannedRun::variant);
    double seconds = 0;
    for (const PlannedRun& run : plan.runs) {
      if (run.variant == variant.id) seconds = run.seconds;
    }
    fmt::print("  {:38} {:>6} steps, {} x {}\n", variant.label, variant.steps, repeats,
               duration(seconds));
  }
  for (const std::string& line : plan.leftOut) fmt::print("  {}\n", line);
  std::fflush(stdout);
}

class Conductor {
 public:
  Conductor(const Request& request, Folder folder)
      : request_(request), folder_(std::move(folder)) {}

  int run() {
    const Status ready = request_.resume ? load() : begin();
    if (ready.code() == StatusCode::kCancelled) return kSignalled + runner_.signal();
    if (!ready.ok()) return fail(ready);
    const auto drawer = Drawer::find();
    if (!drawer.ok()) {
      fmt::print(stderr, "{}: {}; report.json and CSV files are written, report.html is not\n",
                 kStudy, drawer.status().message());
    }
    if (const Status status = runAll(); !status.ok()) return fail(status);
    return report(drawer);
  }

 private:
  // A new study: everything that can be refused is refused here.
  Status begin() {
    study_.options = request_.options;
    study_.command = request_.command;
    study_.began = localTime();
    study_.machine = Machine::here();
    study_.notes = request_.notes;
    const Cores cores{study_.machine.cores};
    // Peers read a copy of the data, so its name has to be known.
    if (!study_.options.peers.empty() && study_.options.settings.data.empty()) {
      study_.options.settings.data = dataForPeers(study_.options);
    }
    COLLA_TRY(checkPeers(study_.options));
    COLLA_TRY_ASSIGN(auto variants, variantsOf(study_.options, cores, 0));
    COLLA_TRY(folder_.create());
    const Status planned = plan(variants, cores);
    if (!planned.ok()) {
      // Nothing was measured: the directory is as free as before.
      std::error_code error;
      std::filesystem::remove_all(folder_.runs(), error);
      std::filesystem::remove_all(folder_.peers(), error);
      std::filesystem::remove(folder_.path(), error);
      return planned;
    }
    return folder_.save(study_);
  }

  Status plan(std::vector<Variant>& variants, const Cores& cores) {
    const bool script = study_.options.program.kind == Program::Kind::kScript;
    Probes probes;
    std::optional<PeerGround> ground;
    if (!study_.options.peers.empty()) {
      COLLA_TRY_ASSIGN(ground, PeerGround::prepare(runner_, study_.options, folder_.peers(),
                                                   request_.writePeerFiles));
    }
    if (script) {
      COLLA_TRY(probeScript(variants, probes));
    } else {
      fmt::print(stderr, "{}: looking at what each strategy takes, with a few steps of it\n",
                 kStudy);
      COLLA_TRY_ASSIGN(
          Probing probing,
          probe(runner_, study_.options.program, study_.options.settings, toProbe(variants),
                folder_.runs() + "/probe", [](const std::string&) {}));
      study_.data = probing.data;
      study_.torchVersion = probing.torchVersion;
      study_.batch = probing.batch;
      for (const auto& [strategy, why] : probing.refused) {
        if (request_.named) {
          return {StatusCode::kInvalidArgument,
                  fmt::format("{} cannot run here: {}", strategy, why)};
        }
        study_.plan.leftOut.push_back(fmt::format("{} cannot run here: {}", strategy, why));
      }
      // Now that the program's own batch is known, and which number of threads suits one worker.
      const auto thread = probing.probes.find("single-1-thread");
      if (thread != probing.probes.end() &&
          thread->second.stepSeconds * kClearly < probing.probes.at("single").stepSeconds) {
        study_.options.singleThreads = 1;
      }
      COLLA_TRY_ASSIGN(variants, variantsOf(study_.options, cores, probing.batch));
      std::erase_if(variants, [&](const Variant& variant) {
        return std::ranges::any_of(probing.refused, [&](const auto& refused) {
          return refused.first == variant.strategy && variant.purpose == Purpose::kStrategy;
        });
      });
      probes = std::move(probing.probes);
    }
    if (ground) ground->complete(study_.options, variants);
    std::ranges::copy(peersLeftOut(study_.options), std::back_inserter(study_.plan.leftOut));
    std::vector<std::string> refused = std::move(study_.plan.leftOut);
    study_.plan =
        makePlan(variants, probes, study_.options.repeat, study_.options.budget * kSecondsOfMinute);
    study_.plan.leftOut.insert(study_.plan.leftOut.begin(), refused.begin(), refused.end());
    return {};
  }

  // A script says nothing of its steps beforehand: its first run is the first of the study.
  Status probeScript(const std::vector<Variant>& variants, Probes& probes) {
    fmt::print(stderr, "{}: the first run shows how long one takes\n", kStudy);
    const Variant& first = variants.front();
    COLLA_TRY_ASSIGN(RunResult result, runVariant(first, 0, std::chrono::hours(24), [] {}));
    if (!result.done()) return {StatusCode::kInvalidArgument, result.error};
    COLLA_TRY(folder_.saveResult(result));
    probes["single"].startSeconds = result.seconds;
    return {};
  }

  Status load() {
    COLLA_TRY_ASSIGN(study_, folder_.load());
    if (request_.budget) study_.options.budget = *request_.budget;
    return {};
  }

  Result<RunResult> runVariant(const Variant& variant, int repeat, std::chrono::seconds limit,
                               const std::function<void()>& tick) {
    const Options& options = study_.options;
    const std::uint64_t seed = options.settings.seed + static_cast<std::uint64_t>(repeat);
    RunJob job;
    job.directory = std::filesystem::absolute(folder_.runOf(variant.id, repeat));
    job.command = commandOf(options.program, variant, options.settings, seed, job.directory);
    job.rootRole =
        variant.purpose == Purpose::kPeer ? "launcher" : rootRoleOf(options.program, variant);
    job.copies = variant.copies;
    job.script = options.program.kind == Program::Kind::kScript;
    job.inStep = variant.inStep();
    job.warmUp = variant.warmUp;
    if (variant.slowed) job.slowed = variant.workers - 1;
    job.limit = limit;
    COLLA_TRY_ASSIGN(RunResult result, runner_.run(job, tick));
    result.variant = variant.id;
    result.repeat = repeat;
    result.seed = seed;
    result.command = commandOf(options.program, variant, options.settings, seed, "").text();
    return result;
  }

  Status runAll() {
    printPlan(study_);
    Progress progress(study_.plan);
    const TimePoint began = std::chrono::steady_clock::now();
    const Deadline budget = Deadline::after(
        std::chrono::seconds(std::llround(study_.options.budget * kSecondsOfMinute)));
    double estimated = 0;
    for (std::size_t i = 0; i < study_.plan.runs.size(); ++i) {
      const PlannedRun planned = study_.plan.runs[i];
      if (auto result = folder_.result(planned.variant, planned.repeat); result && result->done()) {
        study_.runs.push_back(*std::move(result));
        continue;
      }
      if (runner_.interrupted()) break;
      if (budget.expired()) {
        study_.plan.leftOut.push_back(
            fmt::format("The budget of {:.0f} minutes was over before {} runs had begun.",
                        study_.options.budget, study_.plan.runs.size() - i));
        break;
      }
      const double passed =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
      progress.begin(i, estimated > 0 ? passed / estimated : 1);
      const auto limit =
          std::chrono::seconds(std::llround(std::max(120.0, kPatience * planned.seconds)));
      auto result = runVariant(study_.plan.variant(planned.variant), planned.repeat, limit,
                               [&] { progress.tick(); });
      if (!result.ok() && result.status().code() == StatusCode::kCancelled) break;
      COLLA_TRY(result.status());
      estimated += planned.seconds;
      if (!result->done()) {
        progress.say(fmt::format("{}: {}, repeat {}, failed: {}", kStudy,
                                 study_.plan.variant(planned.variant).label, planned.repeat + 1,
                                 result->error));
      }
      if (planned.repeat > 0) folder_.removeCheckpoints(planned.variant, planned.repeat);
      COLLA_TRY(folder_.saveResult(*result));
      study_.runs.push_back(*std::move(result));
    }
    study_.interrupted = runner_.interrupted();
    return {};
  }

  std::vector<std::int64_t> comparedSteps() const {
    std::vector<std::int64_t> steps;
    const std::int64_t every = study_.options.saveEvery;
    for (std::int64_t step = 0; every > 0 && step < study_.options.steps; step += every) {
      steps.push_back(step);
    }
    steps.push_back(study_.options.steps);
    return steps;
  }

  int report(const Result<Drawer>& drawer) {
    if (study_.options.program.kind != Program::Kind::kScript) {
      const auto compared =
          compareAll(study_.plan.variants, comparedSteps(), study_.options.steps, folder_.runs());
      // A study that is resumed after its checkpoints went has its matrix already.
      if (!compared.empty()) study_.equality = compared;
    }
    noteTables();
    if (const Status status = writeReport(folder_.path(), study_); !status.ok())
      return fail(status);
    if (const Status status = folder_.save(study_); !status.ok()) return fail(status);
    if (!study_.interrupted && !request_.keepCheckpoints) {
      for (const Variant& variant : study_.plan.variants) folder_.removeCheckpoints(variant.id, 0);
      PeerGround::removeData(folder_.peers());
    }
    const bool drawn = drawer.ok() && drawer->run({"report", folder_.path()}) == 0;
    printAnswer(drawn);
    if (study_.interrupted) {
      fmt::print(stderr, "{}: interrupted; go on with: colla study --out {} --resume\n", kStudy,
                 folder_.path());
      return kSignalled + runner_.signal();
    }
    const bool any = std::ranges::any_of(study_.runs, &RunResult::done);
    if (drawer.ok() && !drawn) return kExitFailure;
    return any ? 0 : kExitFailure;
  }

  // hybrid without a table trains as allreduce does.
  void noteTables() {
    for (const RunResult& run : study_.runs) {
      const Variant& variant = study_.plan.variant(run.variant);
      if (variant.strategy != "hybrid" || run.counters.empty()) continue;
      double rows = 0;
      for (const Counters& each : run.counters) rows += each.of("colla_ps_pulled_rows_total");
      const std::string note =
          "This model has no table of rows: hybrid trained it as allreduce does, and its server "
          "had "
          "nothing to do.";
      if (rows == 0 && std::ranges::find(study_.notes, note) == study_.notes.end()) {
        study_.notes.push_back(note);
      }
    }
  }

  void printAnswer(bool drawn) const {
    const Figures figures = figuresOf(study_.plan.variants, study_.runs, study_.machine.cores);
    const Advice advice = adviseFrom(figures, study_.machine.cores);
    const bool batches = std::ranges::any_of(study_.runs, &RunResult::batches);
    fmt::print("\n{:38} {:>12} {:>9} {:>10} {:>7}\n", "", batches ? "batches/s" : "samples/s",
               "speed-up", "s to loss", "cores");
    for (const Summary& summary : figures.summaries) {
      if (summary.done == 0) continue;
      fmt::print(
          "{:38} {:>12.1f} {:>9.2f} {:>10} {:>7.2f}\n", summary.variant.label,
          summary.samplesPerSecond.median, summary.speedup,
          summary.secondsToLoss.known() ? fmt::format("{:.2f}", summary.secondsToLoss.median) : "-",
          summary.cores.median);
    }
    fmt::print("\n{}\n", advice.headline);
    for (const std::string& warning : advice.warnings) fmt::print("{}\n", warning);
    fmt::print("\n{}\n", drawn ? folder_.path() + "/report.html" : folder_.path() + "/report.json");
  }

  const Request& request_;
  Folder folder_;
  Runner runner_;
  Study study_;
};

}  // namespace

int runStudy(const Request& request) { return Conductor(request, Folder(request.out)).run(); }

}  // namespace colla::study
