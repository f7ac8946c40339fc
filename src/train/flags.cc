#include "train/flags.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <limits>

#include "base/invalid.h"
#include "checkpoint/directory.h"
#include "checkpoint/source.h"
#include "job/environment.h"
#include "job/settings.h"
#include "launch/start_workers.h"
#include "train/run_plan.h"

namespace colla::train {
namespace {

// Hosts say how many workers there are if --np does not.
constexpr int kNoWorkersGiven = std::numeric_limits<int>::min();

template <typename T>
std::optional<T> wholeNumber(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string strategyHelp() {
  std::string text = "how workers agree:";
  for (const StrategyTraits& traits : strategies()) {
    text += fmt::format(" {} ({}),", traits.name, traits.summary);
  }
  text.pop_back();
  return text + "; by default single for one worker, allreduce for more";
}

// The help of a flag that only some strategies take: which ones, then `text`.
std::string helpFor(std::string_view option, std::string_view text) {
  return fmt::format("{}: {}", strategiesTaking(option), text);
}

}  // namespace

Flags::Flags(CLI::App& app) : app_(app) {
  options_.workers = kNoWorkersGiven;
  addTraining(app);
  addServers(app);
  addLocalSgd(app);
  addOptimizer(app);
  addRun(app);
  hosts_.emplace(app);
  cluster_.emplace(app);
  settings_.emplace(app, job::settings());
}

void Flags::addTraining(CLI::App& app) {
  constexpr char kHow[] = "How to train";
  app.add_option("--strategy", strategy_, strategyHelp())
      ->envname("COLLA_STRATEGY")
      ->option_text("NAME")
      ->group(kHow);
  app.add_option("-n,--np", options_.workers, "workers; also -np N")->group(kHow);
  app.add_option("--accumulate", options_.accumulate,
                 "slices that each worker runs in turn before an update, instead of --slices: "
                 "gradient accumulation")
      ->group(kHow);
  epochsOption_ =
      app.add_option("--epochs", options_.epochs, "times through the data (1)")->group(kHow);
  app.add_option("--steps", options_.steps, "updates in all, instead of --epochs")->group(kHow);
  app.add_option("--batch,--batch-size", options_.batch, "samples per step over all workers")
      ->group(kHow);
  app.add_option("--batch-per-worker", options_.batchPerWorker, "the same, per worker")
      ->group(kHow);
  app.add_option("--seed", seed_, "of everything random (1)")->option_text("N")->group(kHow);
  app.add_flag("--no-shuffle", noShuffle_, "read samples in their natural order")->group(kHow);
  app.add_flag("--bfloat16", options_.bfloat16,
               "forward and loss in bfloat16 where libtorch says so (autocast)")
      ->group(kHow);
  app.add_flag("--no-nan-guard", noNanGuard_, "go on when the loss is not finite")->group(kHow);
}

void Flags::addServers(CLI::App& app) {
  constexpr char kServers[] = "Parameter servers";
  app.add_option("--ps", servers_, "how many (1)")->group(kServers);
  app.add_option("--backup", backup_,
                 helpFor("backup",
                         "of N workers the first N - B make a step, what comes later is dropped; "
                         "auto: only stragglers are left behind"))
      ->option_text("B|auto")
      ->group(kServers);
  app.add_flag("--requeue-dropped", options_.strategyOptions.servers.requeueDropped,
               helpFor("requeue-dropped",
                       "samples whose gradients were dropped are trained again in the same epoch"))
      ->group(kServers);
  app.add_option("--max-staleness", options_.strategyOptions.servers.maxStaleness,
                 helpFor("max-staleness", "refuse gradients that are older, in updates"))
      ->group(kServers);
  app.add_option("--staleness", options_.strategyOptions.servers.staleness,
                 helpFor("staleness", "how many steps a worker may be ahead of the slowest (0)"))
      ->group(kServers);
  app.add_option(
         "--partitions", partitions_,
         "parts that each table is cut into, by rows (one per server); auto: as many as are "
         "fastest, tried with the first batch's rows")
      ->option_text("N|auto")
      ->group(kServers);
  app.add_flag("--sparse-as-dense", options_.sparseAsDense,
               "treat gradients of rows as whole ones, in every strategy")
      ->group(kServers);
  app.add_option("--replicas-to-aggregate", aggregate_,
                 "TensorFlow's --backup: how many of the workers make a step")
      ->group(kServers);
  app.add_option("--total-num-replicas", replicas_, "TensorFlow's --np")->group(kServers);
}

void Flags::addLocalSgd(CLI::App& app) {
  constexpr char kLocal[] = "Local SGD";
  const LocalSgdOptions plain;
  app.add_option("--every", options_.strategyOptions.localSgd.every,
                 helpFor("every", fmt::format("steps that a worker makes by itself between two "
                                              "averages ({})",
                                              plain.every)))
      ->group(kLocal);
  app.add_option("--outer-lr", options_.strategyOptions.localSgd.outerRate,
                 helpFor("outer-lr",
                         "rate of the outer optimizer, which follows the mean difference of a "
                         "round (1: the plain average)"))
      ->group(kLocal);
  app.add_option("--outer-momentum", options_.strategyOptions.localSgd.outerMomentum,
                 helpFor("outer-momentum",
                         "its Nesterov momentum (0); DiLoCo has 0.9, with --outer-lr 0.7"))
      ->group(kLocal);
}

void Flags::addOptimizer(CLI::App& app) {
  constexpr char kOptimizer[] = "Optimizer";
  app.add_option("--optimizer", optimizer_, optimizerNames())
      ->option_text("NAME")
      ->group(kOptimizer);
  app.add_option("--lr,--learning-rate", lr_, "learning rate")->group(kOptimizer);
  app.add_option("--momentum", momentum_, "of sgd and rmsprop")->group(kOptimizer);
  app.add_option("--weight-decay", weightDecay_, "L2 (adamw: decoupled)")->group(kOptimizer);
  app.add_option(
         "--lr-schedule", schedule_,
         "constant, step:EVERY:FACTOR, exponential:EVERY:FACTOR, cosine:STEPS[:FLOOR] or "
         "plateau:METRIC:PATIENCE:FACTOR[:MIN-DELTA] (times FACTOR after PATIENCE evaluations "
         "without a better METRIC)")
      ->option_text("NAME")
      ->group(kOptimizer);
  app.add_option("--warmup", options_.warmup, "steps in which the learning rate rises linearly")
      ->group(kOptimizer);
  app.add_flag("--scale-lr", options_.scaleRate, "multiply the learning rate by the slices")
      ->group(kOptimizer);
  app.add_option("--clip-norm", options_.clipNorm, "limit of the gradients' global norm; 0: none")
      ->group(kOptimizer);
}

void Flags::addRun(CLI::App& app) {
  constexpr char kRun[] = "What is kept and shown";
  app.add_option("--checkpoint-dir,--run-dir,--checkpoint", options_.directory,
                 "directory of the run: checkpoints, log.txt, TensorBoard events; with --resume "
                 "also DIR@STEP")
      ->option_text("DIR")
      ->group(kRun);
  app.add_option("--save-every", options_.saveEvery, "steps between checkpoints")->group(kRun);
  app.add_option("--save-seconds", options_.saveSeconds, "seconds between checkpoints")
      ->group(kRun);
  app.add_option("--keep", keep_, "newest checkpoints to keep, or all (5)")
      ->option_text("N|all")
      ->group(kRun);
  resumeOption_ = app.add_option("--resume", resume_,
                                 "go on from the newest checkpoint there, or from that of STEP; "
                                 "auto: from the newest, or from the beginning if there is none")
                      ->option_text("STEP|auto")
                      ->expected(0, 1)
                      ->group(kRun);
  app.add_option("--eval-every", options_.evalEvery,
                 "steps between evaluations on the test set; by default after every epoch, with "
                 "--steps too; the end of the run is always evaluated")
      ->group(kRun);
  earlyStopOption_ =
      app.add_option("--early-stop", earlyStop_,
                     "METRIC[:PATIENCE[:MIN-DELTA]]: end the run after PATIENCE (3) evaluations in "
                     "a row whose METRIC is not better than the best before them by more than "
                     "MIN-DELTA (0)")
          ->option_text("METRIC[:...]")
          ->group(kRun);
  keepBestOption_ =
      app.add_option("--keep-best", options_.keepBest,
                     "save after each evaluation whose METRIC is the best so far, and keep that "
                     "checkpoint beside the newest, as DIR@best")
          ->option_text("METRIC")
          ->group(kRun);
  app.add_flag("--no-eval", noEvaluation_, "do not evaluate")->group(kRun);
  addJsonFlag(app, options_.json, "one JSON object per step")->group(kRun);
  app.add_flag("--quiet", options_.quiet, "no progress on standard output")->group(kRun);
}

Result<launch::RunOptions> Flags::where(const TrainOptions& options) const {
  launch::RunOptions where;
  const bool given = options.workers != kNoWorkersGiven;
  where.workers = given || !hosts_->given() ? options.workers : 0;
  where.servers = options.strategyOptions.servers.count;
  // A worker's own host need not have the files that the front was given.
  if (launch::startedByFront()) {
    if (!given) where.workers = 1;  // The front has said how many there are.
    return where;
  }
  COLLA_TRY(hosts_->applyTo(where));
  return where;
}

Result<TrainOptions> Flags::options(const Config& config, bool resumes) const {
  TrainOptions options = options_;
  options.shuffle = !noShuffle_;
  options.evaluate = !noEvaluation_;
  options.nanGuard = !noNanGuard_;
  if (options.json == "-") options.quiet = true;  // Each line there is an object.
  if (!strategy_.empty()) {
    COLLA_TRY_ASSIGN(options.strategy, parseStrategy(strategy_));
  }
  COLLA_TRY(readServers(config, options));
  COLLA_TRY_ASSIGN(const launch::RunOptions hosts, where(options));
  options.workers = hosts.workers == kNoWorkersGiven ? 1 : hosts.workers;
  if (hosts.servers > 0) options.strategyOptions.servers.count = hosts.servers;
  if (config.integer("slices") > 0) options.slices = static_cast<int>(config.integer("slices"));
  if (config.integer("threads") > 0) options.threads = static_cast<int>(config.integer("threads"));

  if (options.steps && epochsOption_->count() > 0) {
    return invalid("give --epochs or --steps, not both");
  }
  if (!seed_.empty()) {
    options.seed = wholeNumber<std::uint64_t>(seed_);
    if (!options.seed) {
      return invalid("--seed is \"{}\", but takes a whole number, 0 or more", seed_);
    }
  }

  if (!schedule_.empty()) {
    COLLA_TRY_ASSIGN(options.schedule, parseSchedule(schedule_));
  }

  if (keepBestOption_->count() > 0 && options.keepBest.empty()) {
    return invalid("--keep-best is \"\", but takes loss or a metric of the model");
  }
  if (earlyStopOption_->count() > 0) {
    COLLA_TRY_ASSIGN(options.earlyStop, parseEarlyStop(earlyStop_));
  }

  if (keep_ == "all") {
    options.keep = 0;
  } else if (!keep_.empty()) {
    const auto keep = wholeNumber<int>(keep_);
    if (!keep || *keep < 1) {
      return invalid("--keep is \"{}\", but takes a number, 1 or more, or all", keep_);
    }
    options.keep = *keep;
  }
  if (!keep_.empty() && options.directory.empty()) return needsDirectory("--keep");
  options.resume = resumes || resumeOption_->count() > 0;
  const auto named = checkpoint::splitStep(options.directory);
  // A new directory may have any name, but that of the best checkpoint is one of a run.
  if (!named.ok() && (options.resume || options.directory.ends_with("@best"))) {
    return named.status();
  }
  if (named.ok() && named->step) {
    if (!options.resume || !resume_.empty()) {
      return invalid("--checkpoint-dir is {}, which is a step to go on from: give --resume with it",
                     options.directory);
    }
    options.directory = named->path;
    options.resumeStep = named->step;
  }
  if (resume_ == "auto") {
    // Nobody saves before all workers have come this far. A damaged checkpoint is not none.
    const auto newest = checkpoint::Directory(checkpointsOf(options.directory)).newest();
    options.resume = options.directory.empty() || newest.status().code() != StatusCode::kNotFound;
  } else if (!resume_.empty()) {
    options.resumeStep = wholeNumber<std::int64_t>(resume_);
    if (!options.resumeStep || *options.resumeStep < 0) {
      return invalid("--resume is \"{}\", but takes the number of a step, auto, or nothing",
                     resume_);
    }
  }
  return options;
}

Status Flags::checkEvaluation() const {
  constexpr std::array kOfTraining = {
      "--accumulate", "--epochs",     "--steps",          "--seed",         "--no-shuffle",
      "--optimizer",  "--lr",         "--momentum",       "--lr-schedule",  "--weight-decay",
      "--warmup",     "--scale-lr",   "--clip-norm",      "--save-every",   "--save-seconds",
      "--keep",       "--eval-every", "--early-stop",     "--keep-best",    "--no-eval",
      "--ps",         "--backup",     "--staleness",      "--partitions",   "--max-staleness",
      "--every",      "--outer-lr",   "--outer-momentum", "--no-nan-guard", "--requeue-dropped"};
  for (const char* const name : kOfTraining) {
    if (app_.get_option(name)->count() > 0) {
      return invalid("--eval trains nothing: leave {} out", name);
    }
  }
  return {};
}

Status Flags::readServers(const Config& config, TrainOptions& options) const {
  if (replicas_) options.workers = *replicas_;
  const bool sync = cluster_->syncReplicas();
  if (!options.strategy && cluster_->servers()) {
    options.strategy = sync ? Strategy::kPsSync : Strategy::kPsAsync;
  } else if (!options.strategy && sync && !cluster_->given()) {
    options.strategy = Strategy::kPsSync;
  }
  const auto isSync = [](const StrategyTraits& traits) {
    return traits.pacing == Pacing::kServersSync;
  };
  if (sync && options.strategy) {
    const StrategyTraits& chosen = traitsOf(*options.strategy);
    if (chosen.pacing == Pacing::kServersAsync || chosen.pacing == Pacing::kServersSsp) {
      return invalid("--sync-replicas is for --strategy {}, not {}", strategyNames(isSync),
                     chosen.name);
    }
  }
  if (servers_) {
    if (*servers_ < 1) return invalid("--ps is {}, but takes 1 or more", *servers_);
    options.strategyOptions.servers.count = *servers_;
    if (!options.strategy || !hasServers(*options.strategy)) {
      return invalid("--ps is for --strategy {}: choose one",
                     strategyNames([](const StrategyTraits& traits) { return traits.servers; }));
    }
  }
  if (backup_ == "auto") {
    options.strategyOptions.servers.backup = ServerOptions::kAutoBackup;
  } else if (!backup_.empty()) {
    const auto backup = wholeNumber<int>(backup_);
    if (!backup || *backup < 0) {
      return invalid("--backup is \"{}\", but takes auto or a number of workers", backup_);
    }
    options.strategyOptions.servers.backup = *backup;
  }
  if (partitions_ == "auto") {
    options.strategyOptions.servers.partitions = ServerOptions::kAutoPartitions;
  } else if (!partitions_.empty()) {
    const auto partitions = wholeNumber<int>(partitions_);
    if (!partitions || *partitions < 1) {
      return invalid("--partitions is \"{}\", but takes auto or a number, 1 or more", partitions_);
    }
    options.strategyOptions.servers.partitions = *partitions;
  }
  const std::string hybrid = config.text("hybrid");
  if (hybrid != "servers" && hybrid != "auto") {
    return invalid("{} is \"{}\", but takes servers or auto", config.origin("hybrid"), hybrid);
  }
  if (config.origin("hybrid") == flagName("hybrid")) {
    if (!options.strategy) {
      return invalid("--hybrid is for --strategy {}: choose it", strategiesTaking("hybrid"));
    }
    COLLA_TRY(checkTakes(*options.strategy, "hybrid"));
  }
  if (aggregate_) {
    if (!backup_.empty()) return invalid("give --backup or --replicas-to-aggregate, not both");
    COLLA_TRY_ASSIGN(const job::Place place,
                     job::readEnvironment([](const char* name) { return std::getenv(name); }));
    const int workers = place.launcher == "none" ? options.workers : place.size;
    if (*aggregate_ < 1 || *aggregate_ > workers) {
      return invalid("--replicas-to-aggregate is {}, but takes 1 to {}, the number of workers",
                     *aggregate_, workers);
    }
    options.strategyOptions.servers.backup = workers - *aggregate_;
  }
  return {};
}

Status Flags::applyTo(Optimizer& optimizer) const {
  if (!optimizer_.empty()) {
    COLLA_TRY_ASSIGN(optimizer, parseOptimizer(optimizer_));
  }
  auto* options = std::get_if<OptimizerOptions>(&optimizer);
  if (options == nullptr) {
    if (!lr_ && !momentum_ && !weightDecay_) return {};
    return invalid(
        "the program brings its own optimizer: --lr, --momentum and --weight-decay need "
        "--optimizer");
  }
  if (lr_) setLearningRate(*options, *lr_);
  Status status;
  std::visit(
      [&](auto& chosen) {
        if (weightDecay_) chosen.weightDecay = *weightDecay_;
        if (!momentum_) return;
        if constexpr (requires { chosen.momentum; }) {
          chosen.momentum = *momentum_;
        } else {
          status = invalid("--momentum is for sgd and rmsprop");
        }
      },
      *options);
  COLLA_TRY(status);
  return validate(*options);
}

}  // namespace colla::train
