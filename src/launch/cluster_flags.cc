#include "launch/cluster_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <span>

#include "base/command_line.h"
#include "base/invalid.h"
#include "colla/cluster_flags.h"
#include "job/settings.h"

namespace colla {
namespace launch {

ClusterFlags::ClusterFlags(CLI::App& app) {
  constexpr char kGroup[] = "Without a launcher, as with TensorFlow";
  app.add_option("--ps-hosts", servers_, "every parameter server")
      ->option_text("HOST:PORT")
      ->expected(0, -1)
      ->group(kGroup);
  app.add_option("--worker-hosts", workers_, "every worker")
      ->option_text("HOST:PORT")
      ->expected(0, -1)
      ->group(kGroup);
  app.add_option("--job-name", jobName_, "what this process is")
      ->option_text("ps|worker")
      ->group(kGroup);
  app.add_option("--task-index", taskIndex_, "its place in its list, from 0")
      ->option_text("N")
      ->group(kGroup);
  app.add_flag("--sync-replicas", syncReplicas_,
               "servers wait for all workers: --strategy ps-sync instead of ps-async")
      ->group(kGroup);
}

// A flag is stronger than its variable.
job::ClusterWords ClusterFlags::words() const {
  job::ClusterWords words = job::readWords([](const char* name) { return std::getenv(name); });
  if (!servers_.empty()) words.servers = fmt::format("{}", fmt::join(servers_, " "));
  if (!workers_.empty()) words.workers = fmt::format("{}", fmt::join(workers_, " "));
  if (!jobName_.empty()) words.jobName = jobName_;
  if (!taskIndex_.empty()) words.taskIndex = taskIndex_;
  return words;
}

bool ClusterFlags::given() const { return words().given(); }

Status ClusterFlags::enter(const Config& config) const {
  if (!given()) return {};
  COLLA_TRY(job::parseCluster(words()).status());
  for (const auto& [name, value] : toVariables(words())) setenv(name.c_str(), value.c_str(), 1);
  const std::string secretFile = config.text("secret_file");
  if (!secretFile.empty()) setenv("COLLA_SECRET_FILE", secretFile.c_str(), 1);
  return {};
}

}  // namespace launch

Status takeClusterFlags(int& argc, char** argv) {
  const std::span all(argv + 1, argv + argc);
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  const launch::ClusterFlags flags(app);
  Arguments words;
  for (const char* const word : all) {
    const std::string flag = normalized(word);
    const bool ours = app.get_option_no_throw(flag.substr(0, flag.find('='))) != nullptr;
    words.push_back(ours ? flag : word);
  }
  std::ranges::reverse(words);  // CLI11 takes them from the back.
  try {
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    return invalid("{}", error.what());
  }
  if (flags.syncReplicas()) return invalid("--sync_replicas is for programs with a Trainer");
  COLLA_TRY_ASSIGN(const Config config, job::loadConfig());
  COLLA_TRY(flags.enter(config));

  const std::vector<std::string> others = app.remaining();
  std::size_t kept = 0;
  for (char* const word : all) {
    if (kept < others.size() && word == others[kept]) all[kept++] = word;
  }
  argc = static_cast<int>(kept) + 1;
  argv[argc] = nullptr;
  return {};
}

}  // namespace colla
