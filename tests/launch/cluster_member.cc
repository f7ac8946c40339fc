// One task of a job by lists: cluster_member [TensorFlow's flags] [--np N] [--SETTING VALUE]….
// Says "joined" once it is in, and goes on when it reads a line or the end of its input: workers
// sum their numbers, servers end.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <vector>

#include "base/command_line.h"
#include "colla/job.h"
#include "job/settings.h"
#include "launch/cluster_flags.h"
#include "launch/start_workers.h"

using namespace colla;

namespace {

constexpr char kName[] = "cluster_member";

int fail(const Status& status) {
  if (status.code() == StatusCode::kInvalidArgument) return usageError(kName, status.message());
  fmt::print(stderr, "{}: {}\n", kName, status.message());
  return 1;
}

Status work() {
  COLLA_TRY_ASSIGN(const auto job, Job::init({.torchVersion = "", .settings = {}, .serves = true}));
  if (job->role() == Role::kWorker) COLLA_TRY(barrier(job->world()));
  fmt::print("joined as {} {} of {}, {} servers\n", toString(job->role()), job->rank(), job->size(),
             job->servers());
  std::fflush(stdout);
  char byte = 0;
  while (byte != '\n' && read(STDIN_FILENO, &byte, 1) > 0) continue;
  if (job->role() == Role::kServer) return {};
  std::vector<float> data = {static_cast<float>(job->rank() + 1)};
  COLLA_TRY(allreduce(job->world(), data));
  fmt::print("sum {}\n", data[0]);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("A task of a job by lists.", kName);
  launch::StartOptions options;
  app.add_option("--np", options.workers);
  const SettingFlags settings(app, job::settings());
  const launch::ClusterFlags cluster(app);
  if (const auto exitCode = parse(app, Arguments(argv + 1, argv + argc))) return *exitCode;
  auto config = settings.load();
  if (!config.ok()) return fail(config.status());
  options.config = *std::move(config);
  if (Status status = cluster.enter(options.config); !status.ok()) return fail(status);
  const auto started = launch::startWorkers(options);
  if (!started.ok()) return fail(started.status());
  if (*started) return **started;
  const Status status = work();
  return status.ok() ? 0 : fail(status);
}
