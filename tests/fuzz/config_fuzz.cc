// Settings from a TOML file, a variable and a flag, from bytes of anybody. The first byte says what
// stands before the rest: nothing, or the name of a setting, so that its value is reached.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>

#include "base/config.h"
#include "base/unique_fd.h"
#include "job/settings.h"

namespace {

using colla::Config;
using colla::Setting;

void use(const Config& config) {
  for (const Setting& setting : colla::job::settings()) {
    if (config.origin(setting.name).empty()) std::abort();
    switch (setting.type) {
      case colla::SettingType::kText:
        if (config.text(setting.name) != config.value(setting.name)) std::abort();
        break;
      case colla::SettingType::kInteger:
        static_cast<void>(config.integer(setting.name));
        break;
      case colla::SettingType::kSeconds:
        if (config.seconds(setting.name).count() < 0) std::abort();
        break;
    }
  }
  if (config.sharedText().empty()) std::abort();
}

void check(const colla::Result<Config>& config) {
  if (config.ok()) return use(*config);
  if (config.status().message().empty()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto all = colla::job::settings();
  const Setting& setting = all[data[0] % all.size()];
  const std::string name(setting.name);

  const auto unset = [](const char*) -> const char* { return nullptr; };
  std::string text = rest;
  if (data[0] >= 128) text.insert(0, name + " = ");
  const int memory = ::memfd_create("fuzz", MFD_CLOEXEC);
  if (memory < 0 || ::write(memory, text.data(), text.size()) < 0) std::abort();
  const colla::UniqueFd closes(memory);
  check(Config::load(colla::job::settings(), {}, "/proc/self/fd/" + std::to_string(memory), unset));

  const std::string variable = colla::variableName(name);
  check(Config::load(colla::job::settings(), {}, "", [&](const char* which) {
    return which == variable ? rest.c_str() : nullptr;
  }));
  check(Config::load(colla::job::settings(), {{name, rest}}, "", unset));
  check(Config::load(colla::job::settings(), {{rest, "1"}}, "", unset));
  return 0;
}
