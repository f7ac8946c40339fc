// `colla demo`: the same training under every strategy, as commands that a user could type, and a
// comparison of what came out of them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/command_line.h"
#include "checkpoint/compare.h"
#include "checkpoint/source.h"
#include "child_runner.h"
#include "colla/strategy.h"
#include "commands.h"
#include "launch/host_flags.h"
#include "launch/scratch.h"

namespace colla::cli {
namespace {

constexpr char kDemo[] = "colla demo";
constexpr int kExitFailure = 1;

int workersOf(const StrategyTraits& strategy) {
  return strategy.workers == WorkerKind::kOnlyOne ? 1 : 2;
}

// What the user may choose.
struct Choice {
  std::string model = "mlp";
  std::string data = "synthetic:mnist";
  int epochs = 2;
  std::vector<std::string> hosts;  // Flags for the trainings with several workers.
};

// What a strategy brought.
struct Row {
  const StrategyTraits* strategy;
  double seconds = 0;
  double rate = 0;
  double accuracy = 0;
  std::optional<bool> equal;  // To the first; nothing for the first itself.
};

std::string workersText(int workers) {
  return fmt::format("{} worker{}", workers, workers == 1 ? "" : "s");
}

// The last line of a --json file.
Status readTotals(const std::string& path, Row& row) {
  std::ifstream file(path);
  std::string last;
  for (std::string line; std::getline(file, line);) last = line;
  const auto json = nlohmann::json::parse(last, nullptr, false);
  if (json.is_discarded() || !json.value("total", false)) {
    return {StatusCode::kInternal, fmt::format("{} does not end with totals", path)};
  }
  row.seconds = json.value("seconds", 0.0);
  row.rate = json.value("samples_per_s", 0.0);
  row.accuracy = json.value("metrics", nlohmann::json::object()).value("val_accuracy", 0.0);
  return {};
}

Result<bool> sameBits(const std::string& a, const std::string& b) {
  COLLA_TRY_ASSIGN(const auto left, checkpoint::Source::open(a));
  COLLA_TRY_ASSIGN(const auto right, checkpoint::Source::open(b));
  return checkpoint::compare(left, right).equal();
}

void printTable(const std::vector<Row>& rows) {
  fmt::print("\n{:10} {:>7} {:>8} {:>10} {:>9}  {}\n", "strategy", "workers", "seconds",
             "samples/s", "accuracy", "weights and optimizer state");
  for (const Row& row : rows) {
    const StrategyTraits& strategy = *row.strategy;
    fmt::print("{:10} {:>7} {:>8.2f} {:>10.0f} {:>9.4f}  {}\n", strategy.name, workersOf(strategy),
               row.seconds, row.rate, row.accuracy,
               !strategy.sameBits ? fmt::format("different: {}", strategy.difference)
               : !row.equal       ? "(the others are compared with these)"
               : *row.equal       ? "equal, every bit"
                                  : "DIFFERENT");
  }
}

// Trains with one strategy, and compares with the first one's result. 0, or the exit code that the
// demo ends with, whose reason has been printed.
int train(const StrategyTraits& strategy, const Choice& choice, const launch::Scratch& scratch,
          ChildRunner& runner, std::vector<Row>& rows) {
  const std::string name(strategy.name);
  const int workers = workersOf(strategy);
  std::vector<std::string> shown = {"train",      choice.model,
                                    "--data",     choice.data,
                                    "--epochs",   std::to_string(choice.epochs),
                                    "--slices",   "2",
                                    "--threads",  "1",
                                    "--seed",     "1",
                                    "--strategy", name,
                                    "--np",       std::to_string(workers)};
  if (workers > 1 && strategy.workers == WorkerKind::kProcesses) {
    shown.insert(shown.end(), choice.hosts.begin(), choice.hosts.end());
  }
  fmt::print("{}{}, {}: colla {}\n", rows.empty() ? "" : "\n", name, workersText(workers),
             fmt::join(shown, " "));
  std::vector<std::string> command = shown;
  const std::string directory = scratch.path(name);
  const std::string json = directory + ".json";
  command.insert(command.end(), {"--checkpoint-dir", directory, "--json", json, "--log", "warn"});
  const auto exitCode = runner.run(command);
  if (runner.received() != 0) return kSignalled + runner.received();
  Row row{.strategy = &strategy, .equal = {}};
  Status status = exitCode.status();
  if (status.ok() && *exitCode != 0) return *exitCode;  // It has said why.
  if (status.ok()) status = readTotals(json, row);
  if (status.ok() && !rows.empty() && strategy.sameBits) {
    const auto equal = sameBits(scratch.path(std::string(rows.front().strategy->name)), directory);
    status = equal.status();
    if (equal.ok()) row.equal = *equal;
  }
  if (!status.ok()) {
    fmt::print(stderr, "{}: {}: {}\n", kDemo, name, status.message());
    return kExitFailure;
  }
  rows.push_back(row);
  return 0;
}

}  // namespace

int demoCommand(const Arguments& arguments) {
  CLI::App app(
      fmt::format(
          "Trains one model with every strategy but {}, which is for tables, proves that the "
          "weights\n"
          "are equal in every bit where that is promised, and shows speed and accuracy in a "
          "table:\n"
          "colla demo [flags]",
          strategyNames([](const StrategyTraits& traits) { return traits.tables; })),
      kDemo);
  app.footer(
      "Exit code: 0 if all bits are equal, 1 if not. Nothing is left behind.\n\n"
      "Examples:\n"
      "  colla demo\n"
      "  colla demo --model softmax --data mnist:FOLDER --epochs 1\n"
      "  colla demo -H a:1,b:1                  with TMPDIR in a folder that both hosts share\n");
  Choice choice;
  app.add_option("--model", choice.model, "which model (mlp)")->option_text("NAME");
  app.add_option("--data", choice.data, "which data (synthetic:mnist)")->option_text("NAME");
  app.add_option("--epochs", choice.epochs, "times through the data (2)");
  const launch::HostFlags hosts(app);
  if (const auto exitCode = parse(app, arguments)) return *exitCode;
  launch::RunOptions where;
  if (const Status wrong = hosts.applyTo(where); !wrong.ok()) {
    return usageError(kDemo, wrong.message());
  }
  choice.hosts = hosts.words();

  ChildRunner runner;
  const auto scratch = launch::Scratch::create();
  if (!scratch.ok()) {
    fmt::print(stderr, "{}: {}\n", kDemo, scratch.status().message());
    return kExitFailure;
  }
  std::vector<Row> rows;
  for (const StrategyTraits& strategy : strategies()) {
    if (strategy.tables) continue;  // The demo's model has none: it would show allreduce twice.
    if (const int exitCode = train(strategy, choice, *scratch, runner, rows)) return exitCode;
  }
  printTable(rows);
  const bool equal =
      std::ranges::all_of(rows, [](const Row& row) { return row.equal.value_or(true); });
  fmt::print("\n{}\n", equal ? "equal: every strategy that promises it gave the same bits"
                             : "different: the strategies did not give the same bits");
  return equal ? 0 : kExitFailure;
}

}  // namespace colla::cli
