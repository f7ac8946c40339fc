#include "train/flags.h"

#include <fmt/format.h>

#include <charconv>

namespace colla::train {
namespace {

template <typename... Args>
Status invalid(fmt::format_string<Args...> format, Args&&... args) {
  return {StatusCode::kInvalidArgument, fmt::format(format, std::forward<Args>(args)...)};
}

template <typename T>
std::optional<T> wholeNumber(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

Flags::Flags(CLI::App& app) {
  constexpr char kHow[] = "How to train";
  app.add_option("--strategy", strategy_,
                 "single, mirrored (threads) or allreduce (processes); by default single for one "
                 "worker, allreduce for more")
      ->group(kHow);
  app.add_option("-n,--np", options_.workers, "workers; also -np N")->group(kHow);
  app.add_option("--accumulate", options_.accumulate,
                 "slices that each worker runs in turn before an update, where --slices is not "
                 "given: gradient accumulation")
      ->group(kHow);
  app.add_option("--epochs", options_.epochs, "times through the data (1)")->group(kHow);
  app.add_option("--steps", options_.steps, "updates in all, instead of --epochs")->group(kHow);
  app.add_option("--batch,--batch-size", options_.batch, "samples per step over all workers (100)")
      ->group(kHow);
  app.add_option("--batch-per-worker", options_.batchPerWorker, "the same, per worker")
      ->group(kHow);
  app.add_option("--seed", options_.seed, "of everything random (1)")->group(kHow);
  app.add_flag("--no-shuffle", noShuffle_, "read samples in their natural order")->group(kHow);
  app.add_flag("--bfloat16", options_.bfloat16,
               "forward and loss in bfloat16 where libtorch says so (autocast)")
      ->group(kHow);
  app.add_flag("--no-nan-guard", noNanGuard_, "go on when the loss is not finite")->group(kHow);

  constexpr char kOptimizer[] = "Optimizer";
  app.add_option("--optimizer", optimizer_, "sgd, momentum, adagrad, rmsprop, adam or adamw")
      ->group(kOptimizer);
  app.add_option("--lr,--learning-rate", lr_, "learning rate")->group(kOptimizer);
  app.add_option("--momentum", momentum_, "of sgd and rmsprop")->group(kOptimizer);
  app.add_option("--weight-decay", weightDecay_, "L2 (adamw: decoupled)")->group(kOptimizer);
  app.add_option("--lr-schedule", schedule_,
                 "constant, step:EVERY:FACTOR, exponential:EVERY:FACTOR or cosine:STEPS[:FLOOR]")
      ->group(kOptimizer);
  app.add_option("--warmup", warmup_, "steps in which the learning rate rises linearly")
      ->group(kOptimizer);
  app.add_flag("--scale-lr", options_.scaleRate, "multiply the learning rate by the slices")
      ->group(kOptimizer);
  app.add_option("--clip-norm", options_.clipNorm, "limit of the gradients' global norm; 0: none")
      ->group(kOptimizer);

  constexpr char kRun[] = "What is kept and shown";
  app.add_option("--checkpoint-dir,--run-dir", options_.directory,
                 "directory of the run: checkpoints, log.txt, TensorBoard events")
      ->group(kRun);
  app.add_option("--save-every", options_.saveEvery, "steps between checkpoints")->group(kRun);
  app.add_option("--save-seconds", options_.saveSeconds, "seconds between checkpoints")
      ->group(kRun);
  app.add_option("--keep", keep_, "newest checkpoints to keep, or all (5)")->group(kRun);
  resumeOption_ = app.add_option("--resume", resume_,
                                 "go on from the newest checkpoint there, or from that of STEP")
                      ->expected(0, 1)
                      ->group(kRun);
  app.add_option("--eval-every", options_.evalEvery,
                 "steps between evaluations on the test set; by default after every epoch")
      ->group(kRun);
  app.add_flag("--no-eval", noEvaluation_, "do not evaluate")->group(kRun);
  app.add_option("--json", options_.json, "file for one JSON object per step")->group(kRun);
  app.add_flag("--quiet", options_.quiet, "no progress on standard output")->group(kRun);

  settings_.emplace(app);
}

Result<TrainOptions> Flags::options(const Config& config) const {
  TrainOptions options = options_;
  options.shuffle = !noShuffle_;
  options.evaluate = !noEvaluation_;
  options.nanGuard = !noNanGuard_;
  if (!strategy_.empty()) {
    COLLA_TRY_ASSIGN(options.strategy, parseStrategy(strategy_));
  }
  if (config.integer("slices") > 0) options.slices = static_cast<int>(config.integer("slices"));
  if (config.integer("threads") > 0) options.threads = static_cast<int>(config.integer("threads"));

  if (!schedule_.empty()) {
    COLLA_TRY_ASSIGN(options.schedule, parseSchedule(schedule_));
  }
  if (warmup_ != 0) {
    if (!options.schedule) options.schedule.emplace();
    options.schedule->warmup = warmup_;
  }
  if (options.schedule) COLLA_TRY(validate(*options.schedule));

  if (keep_ == "all") {
    options.keep = 0;
  } else if (!keep_.empty()) {
    const auto keep = wholeNumber<int>(keep_);
    if (!keep || *keep < 1) return invalid("--keep is \"{}\", but takes all or a number", keep_);
    options.keep = *keep;
  }
  options.resume = resumeOption_->count() > 0;
  if (!resume_.empty()) {
    options.resumeStep = wholeNumber<std::int64_t>(resume_);
    if (!options.resumeStep || *options.resumeStep < 0) {
      return invalid("--resume is \"{}\", but takes the number of a step, or nothing", resume_);
    }
  }
  return options;
}

Status Flags::applyTo(Optimizer& optimizer) const {
  if (!optimizer_.empty()) {
    COLLA_TRY_ASSIGN(optimizer, parseOptimizer(optimizer_));
  }
  auto* options = std::get_if<OptimizerOptions>(&optimizer);
  if (options == nullptr) {
    if (!lr_ && !momentum_ && !weightDecay_) return {};
    return invalid(
        "the program chose a torch::optim class: --lr, --momentum and --weight-decay "
        "need --optimizer");
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
