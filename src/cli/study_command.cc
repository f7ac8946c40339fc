// `colla study`: measures strategies on a model, and says which to take.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "base/command_line.h"
#include "base/nearest.h"
#include "bench/peers/files.h"
#include "commands.h"
#include "job/cpu.h"
#include "launch/host_flags.h"
#include "launch/program.h"
#include "study/named.h"
#include "study/peers.h"
#include "study/study.h"

namespace colla::cli {
namespace {

constexpr char kStudy[] = "colla study";

std::vector<std::string> splitAtCommas(const std::string& text) {
  std::vector<std::string> words;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const auto end = std::min(text.find(',', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

// What the user may choose: nothing stands for what the study has by itself.
struct StudyFlags {
  std::string target;
  std::string data;
  std::string strategies;
  std::string workers;
  std::string peers;
  std::string parts;
  std::optional<int> servers;
  std::optional<std::int64_t> batch;
  std::optional<std::int64_t> batchPerWorker;
  std::optional<std::int64_t> steps;
  std::optional<std::int64_t> evalEvery;
  std::optional<int> repeat;
  std::optional<double> budget;
  std::optional<std::uint64_t> seed;
  bool noShuffle = false;
  bool noAlternatives = false;
  bool keepCheckpoints = false;
  bool resume = false;
  std::string out;

  void addTo(CLI::App& app) {
    app.add_option("MODEL", target, "a model (`colla models` lists them) or a named study");
    app.add_option("--data", data, "which data, as `colla train` takes it")->option_text("NAME");
    app.add_option("--strategies", strategies,
                   "all, or some with commas between; with options as in ps-ssp:staleness=3 (all)")
        ->option_text("NAMES");
    app.add_option("--workers", workers,
                   "numbers of workers, with commas between (1 and powers of 2)")
        ->option_text("N,N");
    app.add_option("--ps", servers, "servers of strategies that have some (1)");
    app.add_option(
           "--peers", peers,
           "other systems in the same study, some of spark,tf,mxnet,ddp; what is missing is "
           "installed into a cache")
        ->option_text("NAMES");
    app.add_option("--parts", parts, "some of the studies of a named study that has several (all)")
        ->option_text("NAMES");
    app.add_option("--batch", batch, "samples per step over all workers");
    app.add_option("--batch-per-worker", batchPerWorker,
                   "the same per worker: the step's batch grows with the workers");
    app.add_option("--steps", steps, "of each training (200)");
    app.add_option("--eval-every", evalEvery, "steps between evaluations (a tenth of the steps)");
    app.add_option("--repeat", repeat, "runs of each variant, with a seed of their own each (3)");
    app.add_option("--budget", budget, "minutes for all runs (60)")->option_text("MINUTES");
    app.add_option("--seed", seed, "of the first runs (1)");
    app.add_flag("--no-shuffle", noShuffle, "read samples in their natural order");
    app.add_flag("--no-alternatives", noAlternatives,
                 "measure strategies alone, and not what one can do instead");
    app.add_flag("--keep-checkpoints", keepCheckpoints, "of the first runs, which are compared");
    app.add_option("--out", out, "directory for the report (colla-study-MODEL)")
        ->option_text("DIR");
    app.add_flag("--resume", resume, "go on with the study in --out");
  }
};

// Flags that are none of the study's, with their values, are the model's: they are taken out of
// `arguments`. Those that look like a misspelt flag of ours stay, to be refused.
Arguments takeModelFlags(const CLI::App& app, Arguments& arguments) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  Arguments own;
  Arguments taken;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const std::string name = normalized(word.substr(0, word.find('=')));
    const bool known = !name.starts_with("--") || name == "--help" ||
                       std::ranges::find(names, name) != names.end() ||
                       !didYouMean(name, names).empty();
    if (known) {
      own.push_back(word);
      continue;
    }
    taken.push_back(word);
    const bool value = word.find('=') == std::string::npos && i + 1 < arguments.size() &&
                       !arguments[i + 1].starts_with("--");
    if (value) taken.push_back(arguments[++i]);
  }
  arguments = own;
  return taken;
}

bool isScript(const std::vector<std::string>& words) {
  const std::string name = std::filesystem::path(words.front()).filename();
  return name.starts_with("python") || name.ends_with(".py") || name.ends_with(".sh");
}

// The options that the flags change.
std::optional<int> change(const StudyFlags& flags, study::Options& options) {
  const auto refuse = [](const std::string& message) { return usageError(kStudy, message); };
  if (!flags.data.empty()) options.settings.data = flags.data;
  if (!flags.strategies.empty()) {
    options.strategies.clear();
    if (flags.strategies != "all") options.strategies = splitAtCommas(flags.strategies);
  }
  for (const std::string& text : options.strategies) {
    if (const auto choice = study::parseChoice(text); !choice.ok()) {
      return refuse(std::string(choice.status().message()));
    }
  }
  if (!flags.workers.empty()) {
    options.workers.clear();
    for (const std::string& word : splitAtCommas(flags.workers)) {
      const bool number = !word.empty() && word.size() < 4 &&
                          std::ranges::all_of(word, [](char c) { return c >= '0' && c <= '9'; });
      if (!number || std::stoi(word) < 1) {
        return refuse(fmt::format(
            "--workers is \"{}\", but takes numbers with commas between: 1,2,4", flags.workers));
      }
      options.workers.push_back(std::stoi(word));
    }
  }
  if (!flags.peers.empty()) options.peers = splitAtCommas(flags.peers);
  if (!options.withoutPeers) {
    if (const Status status = study::checkPeers(options); !status.ok()) {
      return refuse(std::string(status.message()));
    }
  }
  if (options.workers.empty()) {
    options.workers = {1};
    for (int workers = 2; workers <= std::max(2, job::usableCpus()) && workers <= 8; workers *= 2) {
      options.workers.push_back(workers);
    }
  }
  if (flags.batch && flags.batchPerWorker)
    return refuse("give --batch or --batch-per-worker, not both");
  if (flags.batch) {
    options.batch = *flags.batch;
    options.batchPerWorker = false;
  }
  if (flags.batchPerWorker) {
    options.batch = *flags.batchPerWorker;
    options.batchPerWorker = true;
  }
  if (flags.steps) options.steps = *flags.steps;
  // Where a study saves in between, it does so in the middle.
  if (flags.steps && options.saveEvery > 0)
    options.saveEvery = std::max<std::int64_t>(1, *flags.steps / 2);
  if (flags.evalEvery) options.evalEvery = *flags.evalEvery;
  if (flags.repeat) options.repeat = *flags.repeat;
  if (flags.budget) options.budget = *flags.budget;
  if (flags.seed) options.settings.seed = *flags.seed;
  if (flags.servers) options.servers = *flags.servers;
  if (flags.noShuffle) options.settings.shuffle = false;
  if (flags.noAlternatives) options.alternatives = false;
  const auto atLeast = [&](std::string_view flag, std::int64_t value, std::int64_t least) {
    return value >= least
               ? std::optional<int>()
               : refuse(fmt::format("--{} is {}, but takes {} or more", flag, value, least));
  };
  if (const auto code = atLeast("steps", options.steps, 10)) return code;
  if (const auto code = atLeast("repeat", options.repeat, 1)) return code;
  if (const auto code = atLeast("ps", options.servers, 1)) return code;
  if (flags.batch || flags.batchPerWorker) {
    if (const auto code = atLeast("batch", options.batch, 1)) return code;
  }
  if (flags.evalEvery) {
    if (const auto code = atLeast("eval-every", options.evalEvery, 1)) return code;
  }
  if (!(options.budget > 0)) {
    return refuse(fmt::format("--budget is {}, but takes minutes above 0", options.budget));
  }
  return std::nullopt;
}

std::string commandLine(const Arguments& arguments) {
  study::CommandLine line;
  line.words = {"study"};
  line.words.insert(line.words.end(), arguments.begin(), arguments.end());
  return line.text();
}

std::string studiesForHelp() {
  std::string text = "Named studies, whose flags change their defaults:\n";
  for (const study::NamedStudy& each : study::namedStudies()) {
    text += fmt::format("  {:10} {}\n", each.name, each.summary);
  }
  return text;
}

// A study of several parts: the flags change each of them.
int suite(const study::NamedStudy& named, const StudyFlags& flags,
          const std::vector<std::string>& hosts, const Arguments& extras, study::Request request) {
  std::vector<study::SuitePart> parts = named.parts();
  if (!flags.parts.empty()) {
    std::vector<std::string> there;
    for (const study::SuitePart& part : parts) there.push_back(part.name);
    const std::vector<std::string> wanted = splitAtCommas(flags.parts);
    for (const std::string& name : wanted) {
      if (std::ranges::find(there, name) == there.end()) {
        return usageError(kStudy, fmt::format("{} has no part \"{}\"; it has {}", named.name, name,
                                              fmt::join(there, ", ")));
      }
    }
    std::erase_if(parts, [&](const study::SuitePart& part) {
      return std::ranges::find(wanted, part.name) == wanted.end();
    });
  }
  for (study::SuitePart& part : parts) {
    std::ranges::copy(extras, std::back_inserter(part.options.program.flags));
    part.options.settings.hosts = hosts;
    if (const auto exitCode = change(flags, part.options)) return *exitCode;
    if (flags.steps && !flags.evalEvery) part.options.evalEvery = part.options.steps;
  }
  request.resume = flags.resume;
  if (named.notes != nullptr) request.notes = named.notes();
  request.named = !flags.strategies.empty() && flags.strategies != "all";
  request.out = flags.out.empty() ? fmt::format("colla-study-{}", named.name) : flags.out;
  while (request.out.size() > 1 && request.out.ends_with('/')) request.out.pop_back();
  return study::runSuite(std::string(named.name), request, parts);
}

}  // namespace

int studyCommand(const Arguments& arguments) {
  CLI::App app(
      "Trains a model with every strategy, some runs of each in turns, measures time, accuracy and "
      "what "
      "the\nmachine does, and says which strategy to take, or that one worker is enough:\n"
      "colla study MODEL [flags]\ncolla study [flags] -- PROGRAM [arguments]",
      kStudy);
  app.footer(
      studiesForHelp() +
      "\nFlags that are none of these go to the model: --hidden 50. PROGRAM is one with a Trainer, "
      "or a\nPython script that uses Colla. DIR gets report.html, report.json and CSV files. "
      "Exit code: 0, 2 for a\nwrong command line, 1 for other failures, 130 after Ctrl-C, "
      "which keeps what there is.\n\nExamples:\n"
      "  colla study mlp --workers 1,2 --steps 100 --out study\n"
      "  colla study resnet50v2 --data cifar10:FOLDER --strategies allreduce,ps-sync --budget 30\n"
      "  colla study --out study --resume\n"
      "  colla study --workers 1,2 -- ./my_program --hidden 50\n");
  StudyFlags flags;
  flags.addTo(app);
  const launch::HostFlags hosts(app);
  const auto dashes = std::ranges::find(arguments, "--");
  Arguments own(arguments.begin(), dashes);
  const Arguments extras = takeModelFlags(app, own);
  const Arguments program(dashes == arguments.end() ? dashes : dashes + 1, arguments.end());
  if (const auto exitCode = parse(app, own)) return *exitCode;

  study::Request request;
  request.command = commandLine(arguments);
  request.keepCheckpoints = flags.keepCheckpoints;
  request.budget = flags.budget;
  const bool asks = !flags.target.empty() || !program.empty();
  if (dashes != arguments.end() && program.empty()) {
    return usageError(kStudy, "the program is missing after --");
  }
  if (!flags.target.empty() && !program.empty()) {
    return usageError(kStudy, fmt::format("give a model or a program, not both: {} and {}",
                                          flags.target, program.front()));
  }
  if (flags.resume) {
    if (flags.out.empty() && flags.target.empty()) {
      return usageError(kStudy, "--resume needs the study's directory: --out DIR");
    }
    request.resume = true;
  } else if (!asks) {
    return usageError(kStudy, "name a model, a study or a program (see colla study --help)");
  }
  request.writePeerFiles = bench::writePeerFiles;
  launch::RunOptions where;
  if (const Status status = hosts.applyTo(where); !status.ok()) {
    return usageError(kStudy, status.message());
  }
  const study::NamedStudy* const named = study::findNamed(flags.target);
  if (named != nullptr && named->parts != nullptr) {
    return suite(*named, flags, hosts.words(), extras, std::move(request));
  }
  if (flags.resume && flags.target.empty() && !study::suiteIn(flags.out).empty()) {
    return usageError(kStudy, fmt::format("{} holds the study {}: go on with colla study {} --out "
                                          "{} --resume",
                                          flags.out, study::suiteIn(flags.out),
                                          study::suiteIn(flags.out), flags.out));
  }
  if (!flags.parts.empty()) {
    return usageError(kStudy,
                      fmt::format("--parts is for a named study that has several, and {} has "
                                  "none",
                                  flags.target.empty() ? "this one" : flags.target));
  }
  if (named != nullptr) {
    request.options = named->options();
    request.notes = named->notes();
  } else if (!flags.target.empty()) {
    request.options.program.words = {flags.target};
  } else if (!program.empty()) {
    request.options.program.kind =
        isScript(program) ? study::Program::Kind::kScript : study::Program::Kind::kTrainer;
    request.options.program.words = program;
    const char* const path = std::getenv("PATH");
    const auto found = launch::findProgram(program.front(), path == nullptr ? "" : path);
    if (!found.ok()) return usageError(kStudy, found.status().message());
  }
  if (asks && request.options.program.kind != study::Program::Kind::kModel && !extras.empty()) {
    return usageError(kStudy,
                      fmt::format("there is no flag {} (see colla study --help)", extras.front()));
  }
  std::ranges::copy(extras, std::back_inserter(request.options.program.flags));
  request.options.settings.hosts = hosts.words();
  request.named = !flags.strategies.empty() && flags.strategies != "all";
  if (asks) {
    if (const auto exitCode = change(flags, request.options)) return *exitCode;
    request.out = fmt::format("colla-study-{}", named != nullptr ? std::string(named->name)
                                                                 : request.options.program.name());
  }
  if (!flags.out.empty()) request.out = flags.out;
  while (request.out.size() > 1 && request.out.ends_with('/')) request.out.pop_back();
  return study::runStudy(request);
}

}  // namespace colla::cli
