// `colla runs`, `colla plot` and `colla report`: what there is of earlier runs and studies.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>

#include "base/command_line.h"
#include "base/text_table.h"
#include "commands.h"
#include "study/draw.h"
#include "study/runs.h"

namespace colla::cli {
namespace {

// Python draws, and says what is wrong with what it is given.
int drawWith(const std::string& command, const std::vector<std::string>& arguments) {
  const auto drawer = study::Drawer::find();
  if (!drawer.ok()) {
    fmt::print(stderr, "{}: {}\n", command, drawer.status().message());
    return 1;
  }
  return drawer->run(arguments);
}

std::string orDash(const std::string& text) { return text.empty() ? "-" : text; }

}  // namespace

int runsCommand(const Arguments& arguments) {
  CLI::App app(
      "Lists the training directories in a directory and below it: model, strategy, workers, "
      "steps, the "
      "last\nloss and accuracy of training, and when the newest checkpoint was saved:\ncolla runs "
      "[DIR]",
      "colla runs");
  app.footer(
      "Exit code: 0, 2 where there is no run, 1 if one of them is broken.\n\nExample:\n  colla "
      "runs runs\n");
  std::string directory = ".";
  app.add_option("DIR", directory, "where to look (the current directory)");
  if (const auto exitCode = parse(app, arguments)) return *exitCode;
  const auto runs = study::findRuns(directory);
  if (!runs.ok()) return usageError(app.get_name(), runs.status().message());
  std::vector<TableRow> rows = {
      {"run", "model", "strategy", "workers", "steps", "loss", "accuracy", "saved"}};
  bool broken = false;
  for (const study::FoundRun& run : *runs) {
    if (!run.problem.empty()) {
      fmt::print(stderr, "{}: {}: {}\n", app.get_name(), run.path, run.problem);
      broken = true;
      continue;
    }
    rows.push_back({run.path, orDash(run.model), orDash(run.strategy),
                    run.workers > 0 ? std::to_string(run.workers) : "-", std::to_string(run.steps),
                    fmt::format("{:.4f}", run.loss),
                    std::isnan(run.accuracy) ? "-" : fmt::format("{:.4f}", run.accuracy),
                    orDash(run.time)});
  }
  if (rows.size() > 1) fmt::print("{}", aligned(rows, {0, 1, 2, 7}));
  return broken ? 1 : 0;
}

int plotCommand(const Arguments& arguments) {
  CLI::App app(
      "Draws the loss and the accuracy of training directories against the step or the time:\n"
      "colla plot RUN… [flags]",
      "colla plot");
  app.footer(
      "A RUN is what --checkpoint-dir named. Needs a Python with matplotlib: pip install "
      "\"colla[study]\".\n\nExample:\n  colla plot runs/a runs/b --out curves.svg\n");
  std::vector<std::string> runs;
  std::string out = "plot.png";
  std::string against = "step";
  app.add_option("RUN", runs, "training directories")->required();
  app.add_option("--out", out, "a .png or .svg file (plot.png)")->option_text("FILE");
  app.add_option("--against", against, "step or time (step)")->option_text("NAME");
  if (const auto exitCode = parse(app, arguments)) return *exitCode;
  if (against != "step" && against != "time") {
    return usageError(app.get_name(),
                      fmt::format("--against is \"{}\", but takes step or time", against));
  }
  std::vector<std::string> words = {"plot", "--out=" + out, "--against=" + against, "--"};
  words.insert(words.end(), runs.begin(), runs.end());
  return drawWith(app.get_name(), words);
}

int reportCommand(const Arguments& arguments) {
  CLI::App app(
      "Draws the page of a study again, or one page for several studies of other machines or other "
      "days:\n"
      "colla report DIR… [flags]",
      "colla report");
  app.footer(
      "Needs a Python with matplotlib: pip install \"colla[study]\".\n\nExample:\n"
      "  colla report study-laptop study-server --out both.html\n");
  std::vector<std::string> directories;
  std::string out;
  std::string figures;
  app.add_option("--figures", figures,
                 "also write each figure of a single study there, as an SVG file")
      ->option_text("FOLDER");
  app.add_option("DIR", directories, "directories of studies")->required();
  app.add_option("--out", out, "the page (report.html in the directory of a single study)")
      ->option_text("FILE");
  if (const auto exitCode = parse(app, arguments)) return *exitCode;
  if (out.empty() && directories.size() > 1) {
    return usageError(app.get_name(),
                      "--out FILE is missing: one page for several studies needs a name");
  }
  if (!figures.empty() && directories.size() > 1) {
    return usageError(app.get_name(), "--figures is for a single study");
  }
  std::vector<std::string> words = {"report"};
  if (!figures.empty()) words.push_back("--figures=" + figures);
  if (!out.empty()) words.push_back("--out=" + out);
  words.emplace_back("--");
  words.insert(words.end(), directories.begin(), directories.end());
  return drawWith(app.get_name(), words);
}

}  // namespace colla::cli
