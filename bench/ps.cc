// `colla bench ps`: trainings with a parameter server beside those of peers, and bytes through one
// server.
#include <fmt/format.h>

#include <algorithm>

#include "bench/machine.h"
#include "bench/push.h"
#include "bench/trainings.h"

namespace colla::bench {
namespace {

struct PsOptions {
  std::vector<std::string> parts = {"train", "push"};
  TrainingOptions trainings{.models = {"lr", "mlp"}, .servers = true};
  PushOptions push;
  std::string bytes = "32M";
};

class PsTrainings : public TrainingsBench {
 public:
  using TrainingsBench::TrainingsBench;

  Result<Records> run() {
    COLLA_TRY(checkTorchProgram(worker_, "; --parts push needs none"));
    for (const std::string& peer : common_.peers) {
      COLLA_TRY_ASSIGN(const bool runs, startPeer(peer, [&] { return peerSystem(peer); }));
      if (runs) systems_.push_back({peer, 2});
    }
    // With a server, and allreduce beside it.
    COLLA_TRY(startColla({"colla-2", 2}, "allreduce", 0));
    COLLA_TRY(startColla({"colla-ps-sync", 2}, "ps-sync", 1));
    COLLA_TRY(startColla({"colla-ps-async", 2, true, true}, "ps-async", 1));
    Records records;
    for (const std::string& name : options_.models) {
      COLLA_TRY_ASSIGN(const BenchModel* const model, parseModel(name));
      COLLA_TRY(measureModel(*model, records));
    }
    return records;
  }

 private:
  Result<SystemSpec> peerSystem(const std::string& peer) {
    COLLA_TRY_ASSIGN(const std::string python,
                     peerPython(coordinator_, peer, common_.peersRequired,
                                [this](const std::string& line) { progress_.tell(line); }));
    return peerServerSystem({coordinator_, 2}, peer, python);
  }
};

Result<Findings> runPs(const PsOptions& options, Coordinator& coordinator) {
  warnIfBusy();
  const auto wanted = [&](const char* part) {
    return std::ranges::find(options.parts, part) != options.parts.end();
  };
  Records trained;
  Records pushed;
  // Before libtorch's processes are there, which take memory.
  if (wanted("push")) {
    COLLA_TRY_ASSIGN(pushed, measurePush(coordinator, options.push));
  }
  if (wanted("train")) {
    COLLA_TRY_ASSIGN(trained, PsTrainings(options.trainings, coordinator).run());
  }
  const std::vector<Column> last = {
      numberColumn("worker PSS MB", "worker_pss_bytes", megabytesText),
      numberColumn("server PSS MB", "server_pss_bytes", megabytesText)};
  std::string text;
  if (!trained.empty()) {
    text += trainingsTable(trained, {"colla-ps-sync", "colla-ps-async"}, last);
  }
  if (!trained.empty() && !pushed.empty()) text += "\n";
  if (!pushed.empty()) text += pushTable(pushed);
  trained.insert(trained.end(), pushed.begin(), pushed.end());
  return Findings{text, std::move(trained)};
}

}  // namespace

void addPs(CLI::App& bench, Action& action) {
  CLI::App* const app = bench.add_subcommand(
      "ps",
      "Measures training with a parameter server, Colla's beside MXNet's and TensorFlow's, and how "
      "many bytes pass through one server, in one run on this machine");
  app->footer(
      "The columns colla-ps-sync/it and colla-ps-async/it say how many times as fast as a line's "
      "system Colla's are.\n\n"
      "Examples:\n"
      "  colla bench ps --peers mxnet,tf --json out.json\n"
      "  colla bench ps --parts push --workers 1,4 --bytes 32M\n");
  const auto options = std::make_shared<PsOptions>();
  CommonOptions& common = options->trainings.common;
  common.peers = {"mxnet", "tf"};
  app->add_option(
         "--parts", options->parts,
         "What to measure: train (two workers and a server), push (bytes through a server)")
      ->delimiter(',')
      ->check(CLI::IsMember({"train", "push"}))
      ->default_str("train,push");
  app->add_option("--models", options->trainings.models, "Models: lr, softmax, snn, mlp")
      ->option_text("NAME")
      ->delimiter(',')
      ->check(CLI::IsMember({"lr", "softmax", "snn", "mlp"}))
      ->default_str("lr,mlp");
  const auto batches = std::make_shared<std::vector<std::int64_t>>();
  app->add_option("--batch", *batches,
                  "Samples of a step, over both workers (100, and 500 for lr, if not given)")
      ->delimiter(',')
      ->check(CLI::Range(2, 1'000'000));
  addPeers(*app, common,
           "Systems to compare with: mxnet, tf, or none. Those that are named are installed from "
           "PyPI into ~/.cache/colla/bench if they are not there yet");
  app->add_option("--samples", options->trainings.samples,
                  "Size of the data sets (if not given: 10000 for lr, 60000 for the others)")
      ->check(CLI::Range(2, 10'000'000));
  app->add_option("--workers", options->push.workers,
                  "How many workers push, one number after another")
      ->delimiter(',')
      ->check(CLI::Range(1, 64))
      ->default_str("1,2,4,8");
  app->add_option("--bytes", options->bytes, "What each of them pushes in a step, as 64K, 32M")
      ->option_text("SIZE")
      ->check(accepted(parseBytes))
      ->capture_default_str();
  addRunFlags(*app, common);
  app->callback([options, batches, &action] {
    TrainingOptions& trainings = options->trainings;
    trainings.models = distinct(trainings.models);
    for (const std::int64_t count : distinct(*batches)) trainings.batches.push_back({count});
    options->push.common = trainings.common;
    options->push.workers = distinct(options->push.workers);
    options->push.bytes = *parseBytes(options->bytes);
    throwIfBad(checkBatches(trainings));
    action = [options] {
      return runBenchmark(options->trainings.common.jsonFile,
                          [&](Coordinator& coordinator) { return runPs(*options, coordinator); });
    };
  });
}

}  // namespace colla::bench
