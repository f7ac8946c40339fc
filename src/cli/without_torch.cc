// What the commands that train say in a build without libtorch.
#include <fmt/format.h>

#include <cstdio>

#include "commands.h"

namespace colla::cli {
namespace {

int absent(const char* name) {
  fmt::print(stderr,
             "colla {}: not in this build, which was made without libtorch (COLLA_TORCH=OFF); "
             "configure it with -DCOLLA_TORCH=ON and Torch_DIR\n",
             name);
  return 1;
}

}  // namespace

int demoCommand(const Arguments& /*arguments*/) { return absent("demo"); }
int evalCommand(const Arguments& /*arguments*/) { return absent("eval"); }
int modelsCommand(const Arguments& /*arguments*/) { return absent("models"); }
int trainCommand(const Arguments& /*arguments*/) { return absent("train"); }

}  // namespace colla::cli
