#include <fmt/format.h>

#include "base/command_line.h"
#include "base/version.h"
#include "commands.h"
#include "transport/transports.h"

namespace colla::cli {
namespace {

#if defined(__clang__)
constexpr char kCompiler[] = "clang " __clang_version__;
#else
constexpr char kCompiler[] = "gcc " __VERSION__;
#endif

}  // namespace

int versionCommand(const Arguments& arguments) {
  CLI::App app("Tells the version, the compiler and what is built in.", "colla version");
  if (const auto exitCode = parse(app, arguments)) return *exitCode;
  std::string transports;
  for (const auto& row : transport::transports()) transports += fmt::format(" {}", row.name);
  fmt::print("colla {}\ncompiler: {}\ntransports:{}\n", version(), kCompiler, transports);
  return 0;
}

}  // namespace colla::cli
