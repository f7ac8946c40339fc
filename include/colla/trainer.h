// Trains a model with any number of workers: the program says what, flags say how.
//
//   int main(int argc, char** argv) {
//     colla::Task task;  // Net is a torch::nn::Module: colla/model.h has an example.
//     task.name = "my-net";
//     task.model = [] { return colla::classifier(std::make_shared<Net>()); };
//     task.optimizer = colla::Adam{.lr = 1e-3};
//     task.data = [](colla::Part part) { return colla::openDataset("mnist:data", part); };
//     return colla::Trainer(std::move(task)).main(argc, argv);
//   }
//
// ./my-net --strategy allreduce --np 2 then starts its own workers. For a given seed, number of
// slices and threads, the parameters, buffers and optimizer state after every step are the same in
// every bit for every number of workers under single, mirrored, allreduce, ps-sync, ps-ssp or
// hybrid with their default options (StrategyTraits::sameBits, colla/strategy.h). The other
// strategies do not promise that.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "colla/dataset.h"
#include "colla/hook.h"
#include "colla/model.h"
#include "colla/optimizer.h"
#include "colla/own_optimizer.h"
#include "colla/schedule.h"
#include "colla/status.h"
#include "colla/strategy.h"
#include "colla/strategy_options.h"

namespace colla {

// A torch::optim class of the program's own choice, for one replica's parameters. One that keeps
// its state where libtorch can't find it, such as a class around other optimizers, is an
// OwnOptimizer.
struct TorchOptimizer {
  std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<torch::Tensor>)> make;
  std::string text;  // What it is: checkpoints hold it, and a resumed run that differs warns.
};
// Servers run Colla's own alone: OptimizerOptions.
using Optimizer = std::variant<OptimizerOptions, TorchOptimizer, OwnOptimizerMaker>;

// Ends a run that gets no better on the test part.
struct EarlyStop {
  std::string metric;         // "loss" or one of Model::metrics().
  std::int64_t patience = 3;  // Evaluations in a row that are not better than the best before them,
  double minDelta = 0;        // by more than this.
};
// From "METRIC[:PATIENCE[:MIN-DELTA]]".
Result<EarlyStop> parseEarlyStop(std::string_view text);

// What is trained.
struct Task {
  std::string name;
  std::string options;  // Of the model, as text: checkpoints hold it.
  MakeModel model;
  Optimizer optimizer = OptimizerOptions(Sgd{});
  // Parameters that are trained differently, under every strategy. With an optimizer that is not
  // Colla's they can only be frozen: such an optimizer has groups of its own.
  std::vector<ParameterGroup> groups = {};
  std::int64_t batch = 100;  // Global, where neither the options nor a checkpoint say another.
  Schedule schedule;         // Where the options have none.
  double clipNorm = 0;       // The same; 0: no clipping.
  std::function<Result<std::shared_ptr<const Dataset>>(Part)> data;
  std::vector<std::shared_ptr<Hook>> hooks;
  std::string warning;  // Told once when a training starts, in one line; empty: none.
};

// A flag of the program's own, beside those that set TrainOptions.
struct ProgramFlag {
  std::string name;  // "--hidden".
  std::string help;
  // Set where the flag is given. A bool takes no value.
  std::variant<std::string*, std::int64_t*, double*, bool*> value;
};

// How it is trained. The flags of a program (Trainer::main) set all of it.
struct TrainOptions {
  std::optional<Strategy> strategy;  // Nothing: single for one worker, allreduce for more.
  int workers = 1;
  std::optional<int> accumulate;      // Slices per worker, instead of `slices`.
  std::optional<int> slices;          // Nothing of both: the checkpoint's, or one per worker.
  std::optional<int> threads;         // Per slice. Nothing: cores / workers, or the checkpoint's.
  std::optional<std::uint64_t> seed;  // Nothing: 1, or the checkpoint's.
  std::optional<std::int64_t> batch;  // Global. Nothing: the task's, or the checkpoint's.
  std::optional<std::int64_t> batchPerWorker;
  std::int64_t epochs = 1;
  std::optional<std::int64_t> steps;  // Instead of epochs: updates in all.
  bool shuffle = true;
  StrategyOptions strategyOptions;
  bool sparseAsDense = false;  // Gradients of rows are treated as whole ones.

  std::optional<Schedule> schedule;    // Nothing: the task's.
  std::optional<std::int64_t> warmup;  // Steps in front of it. Nothing: those it has.
  bool scaleRate = false;              // Learning rate times slices.
  std::optional<double> clipNorm;      // Nothing: the task's. 0: no clipping.
  bool bfloat16 = false;  // Forward and loss under autocast; or the checkpoint says so.
  bool nanGuard = true;   // Ends at a loss, and saves nothing, that is not finite.

  // Of the run: log.txt, events, checkpoints/; without `resume` none of another run. Empty: none.
  std::string directory;
  std::int64_t saveEvery = 0;  // Steps; 0: only at the end.
  double saveSeconds = 0;      // As well, or instead.
  int keep = 5;                // Newest checkpoints; 0: all.
  bool resume = false;
  std::optional<std::int64_t> resumeStep;  // Nothing: the newest.
  // Steps between evaluations; 0: after every epoch, whether `epochs` or `steps` says how long the
  // run is. The end of the run is always evaluated.
  std::int64_t evalEvery = 0;
  bool evaluate = true;
  std::optional<EarlyStop> earlyStop;
  std::string keepBest;  // Metric whose best checkpoint stays, beside the newest; empty: none.
  std::string json;      // File; empty: none.
  bool quiet = false;    // No progress on standard output.
};

// What became of a run.
struct Summary {
  Progress train;                // Of the last epoch or section.
  std::optional<Progress> test;  // Of the last evaluation.
  std::int64_t steps = 0;        // Done by this run.
  std::int64_t samples = 0;
  double seconds = 0;        // Of its steps, without evaluations and saves.
  bool interrupted = false;  // Ctrl-C: saved, and left.
  std::string stopReason;  // Worker 0's: of the hook or flag that ended the run; empty: its length.
  std::optional<std::int64_t> saved;  // Worker 0's: the step of the newest checkpoint.
};

// What a checkpoint is worth on the test part of the data.
struct Evaluation {
  std::int64_t step = 0;  // The checkpoint's.
  std::int64_t samples = 0;
  double loss = 0;
  std::vector<std::string> names;  // Of the metrics.
  std::vector<double> metrics;
};

class Trainer {
 public:
  explicit Trainer(Task task);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Reads the flags, starts workers where there are to be several, trains (or evaluates, with
  // --eval), and returns the program's exit code: 0; 2 for wrong flags; 1 for other failures, with
  // one line on standard error; 130 after Ctrl-C.
  int main(int argc, char** argv);
  // The same for a program with `flags` of its own, which --help shows too. `make` makes the task
  // once they are read.
  static int main(int argc, char** argv, const std::vector<ProgramFlag>& flags,
                  const std::function<Task()>& make);

  // The same for a program that has read its options itself and, for allreduce, runs under a
  // launcher: every worker calls it, and it starts no others.
  Result<Summary> run(const TrainOptions& options);

  // Evaluates the checkpoint of options.resumeStep, or the newest, in options.directory; trains
  // nothing and writes nothing. Distributed as run() is, with the same bits for every number of
  // workers. Slices, threads, batch, seed and bfloat16 are the checkpoint's unless options say
  // others.
  Result<Evaluation> evaluate(const TrainOptions& options);

 private:
  Task task_;
};

}  // namespace colla
