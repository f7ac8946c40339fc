// `colla agent`: what `colla run` starts on each of its hosts. The overview does not show it.
#include "commands.h"
#include "launch/agent.h"

namespace colla::cli {

int agentCommand(const Arguments& arguments) {
  CLI::App app("A part of `colla run` on several hosts, which starts it there.", "colla agent");
  if (const auto exitCode = parse(app, arguments)) return *exitCode;
  return launch::runAgent();
}

}  // namespace colla::cli
