// The commands that need libtorch are in a program of their own, colla-train, beside this one: to
// load libtorch takes a third of a second, which the other commands should not cost. This process
// becomes that program.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "commands.h"
#include "launch/start_workers.h"

namespace colla::cli {
namespace {

int become(std::string name, const Arguments& arguments) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string program = self.parent_path() / "colla-train";

  // By the name that the user typed, which the commands that a run offers begin with.
  const auto typed = launch::argumentsOfSelf();
  std::string colla = typed.ok() ? typed->front() : "colla";
  Arguments copies = arguments;
  std::vector<char*> words = {colla.data(), name.data()};
  for (std::string& argument : copies) words.push_back(argument.data());
  words.push_back(nullptr);
  execv(program.c_str(), words.data());
  if (errno == ENOENT) {
    fmt::print(stderr,
               "colla {}: not in this build: there is no {}, which is built with "
               "-DCOLLA_TORCH=ON and Torch_DIR\n",
               name, program);
  } else {
    fmt::print(stderr, "colla {}: cannot run {}: {}\n", name, program, std::strerror(errno));
  }
  return 1;
}

}  // namespace

int evalCommand(const Arguments& arguments) { return become("eval", arguments); }
int modelsCommand(const Arguments& arguments) { return become("models", arguments); }
int predictCommand(const Arguments& arguments) { return become("predict", arguments); }
int trainCommand(const Arguments& arguments) { return become("train", arguments); }

}  // namespace colla::cli
