// `colla doctor`: whether a job can run here or on other hosts, and what it would choose.
#include "base/command_line.h"
#include "commands.h"
#include "job/settings.h"
#include "launch/doctor.h"
#include "launch/host_flags.h"

namespace colla::cli {

int doctorCommand(const Arguments& arguments) {
  CLI::App app(
      "Tells what a job finds on its hosts, what it would choose there and why, and how fast the "
      "hosts\n"
      "reach each other:\n"
      "colla doctor [-H HOSTS] [flags]",
      "colla doctor");
  app.footer(
      "Exit code: 0 if a job can run there, 1 with a line for each reason why not.\n\n"
      "Examples:\n"
      "  colla doctor\n"
      "  colla doctor -H a:4,b:4\n");
  launch::RunOptions options;
  options.name = app.get_name();
  const launch::HostFlags hosts(app);
  const SettingFlags settings(app, job::settings());
  if (const auto exitCode = parse(app, arguments)) return *exitCode;
  if (const Status wrong = hosts.applyTo(options); !wrong.ok()) {
    return usageError(app.get_name(), wrong.message());
  }
  if (const Status wrong = launch::useAllocation(options); !wrong.ok()) {
    return usageError(app.get_name(), wrong.message());
  }
  auto config = settings.load();
  if (!config.ok()) return usageError(app.get_name(), config.status().message());
  options.config = *std::move(config);
  return launch::runDoctor(options);
}

}  // namespace colla::cli
