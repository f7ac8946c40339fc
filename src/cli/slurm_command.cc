// `colla slurm`: writes a batch file for Slurm, and submits it.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/command_line.h"
#include "commands.h"
#include "launch/batch_script.h"
#include "launch/program.h"

namespace colla::cli {
namespace {

constexpr char kSlurm[] = "colla slurm";
constexpr char kThen[] = "--then";

int failed(const std::string& message) {
  fmt::print(stderr, "{}: {}\n", kSlurm, message);
  return 1;
}

// Never over a file that is something else.
Status writeScript(const std::string& path, const std::string& text) {
  if (std::ifstream old(path); old) {
    const std::string there{std::istreambuf_iterator<char>(old), {}};
    if (there.find(launch::kBatchScriptMark) == std::string::npos) {
      return {StatusCode::kInvalidArgument,
              fmt::format("{} is there already, and not from `colla slurm`: choose a name with "
                          "--file",
                          path)};
    }
  }
  std::ofstream file(path);
  file << text << std::flush;
  if (file) return {};
  return {StatusCode::kInvalidArgument,
          fmt::format("can't write {}: {}", path, std::strerror(errno))};
}

// Becomes sbatch; comes back if that can't be.
int submit(const std::string& path) {
  const char* const folders = std::getenv("PATH");
  const auto program = launch::findProgram("sbatch", folders == nullptr ? "" : folders);
  if (!program.ok()) {
    return failed(
        fmt::format("{} is written, but there is no sbatch here to submit it with: run "
                    "this on a host of the cluster",
                    path));
  }
  execl(program->c_str(), "sbatch", path.c_str(), nullptr);
  return failed(fmt::format("can't start {}: {}", *program, std::strerror(errno)));
}

}  // namespace

int slurmCommand(const Arguments& arguments) {
  CLI::App app(
      "Writes a batch file for Slurm, and with --submit submits it:\n"
      "colla slurm [flags] -- COMMAND [arguments] [--then COMMAND …]",
      kSlurm);
  app.footer(
      "COMMAND is one of colla's, such as train, or a program, whose processes then are one job.\n"
      "A training saves before the time limit, goes back into the queue, and resumes there.\n\n"
      "Examples:\n"
      "  colla slurm --nodes 2 --ntasks-per-node 4 --time 25 --submit -- train resnet50v2 --epochs "
      "5\n"
      "  colla slurm --ntasks-per-node 4 --module anaconda -- python train.py --then eval mlp "
      "runs/mlp\n");
  launch::BatchScript script;
  std::string file;
  bool submits = false;
  app.add_option("-N,--nodes", script.nodes, "hosts (1)")->check(CLI::PositiveNumber);
  app.add_option("--ntasks-per-node", script.tasksPerNode, "workers on each of them (1)");
  app.add_option("-c,--cpus-per-task", script.cpusPerTask, "cores, and threads, of each worker");
  app.add_option("-t,--time", script.time, "limit in minutes, or as HOURS:MINUTES:SECONDS")
      ->option_text("TIME");
  app.add_option("-J,--job-name", script.jobName, "by default after the first command")
      ->option_text("NAME");
  app.add_option("-o,--output", script.output, "file for what the job says; %j: its number")
      ->option_text("FILE");
  app.add_option("-e,--error", script.error, "the same, for its standard error")
      ->option_text("FILE");
  app.add_option("-D,--chdir", script.chdir, "directory to run in")->option_text("DIR");
  app.add_option("--gres", script.gres, "resources, such as gpu:2")->option_text("LIST");
  app.add_option("-p,--partition", script.partition, "where to run")->option_text("NAME");
  app.add_option("-A,--account", script.account, "who pays")->option_text("NAME");
  app.add_option("--module", script.modules, "module to load; may be repeated")
      ->option_text("NAME")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--sbatch", script.others, "any other flag of sbatch; may be repeated")
      ->option_text("FLAG")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--file", file, "where to write it (JOB-NAME.sbatch); -: standard output")
      ->option_text("FILE");
  app.add_flag("--submit", submits, "submit it with sbatch");

  Arguments flags = arguments;
  Arguments words = takeCommand(app, flags);
  if (const auto exitCode = parse(app, flags)) return *exitCode;

  for (auto begin = words.begin(); !words.empty();) {
    const auto end = std::find(begin, words.end(), kThen);
    script.commands.emplace_back(begin, end);
    if (end == words.end()) break;
    begin = end + 1;
  }
  if (script.jobName.empty() && !script.commands.empty()) {
    script.jobName = launch::defaultJobName(script.commands.front());
  }
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  script.colla = error ? "colla" : self.string();
  const auto text = launch::toText(script);
  if (!text.ok()) return usageError(kSlurm, text.status().message());
  if (file == "-") {
    if (submits) return usageError(kSlurm, "--submit needs a file: leave out --file -");
    fmt::print("{}", *text);
    return 0;
  }
  if (file.empty()) file = script.jobName + ".sbatch";
  if (Status status = writeScript(file, *text); !status.ok()) {
    return usageError(kSlurm, status.message());
  }
  if (submits) return submit(file);
  fmt::print("{} is written; submit it with: sbatch {}\n", file, file);
  return 0;
}

}  // namespace colla::cli
