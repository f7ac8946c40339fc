#include "job/unknown_variables.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "job/cluster.h"
#include "job/environment.h"
#include "job/settings.h"

namespace colla::job {
namespace {

// Read by somebody, and neither a setting nor a place in a job.
constexpr std::array<std::string_view, 8> kOthers = {
    "COLLA_ALIASES",
    "COLLA_CONFIG",
    "COLLA_FRONT",
    "COLLA_PEER_PYTHON",
    "COLLA_PYTHON",
    "COLLA_STRATEGY",
    "COLLA_TENSORBOARD_PYTHON",
    "COLLA_TORCH_PYTHON",
};

bool isKnown(std::string_view name) {
  const auto named = [&](const auto& variable) { return variable.first == name; };
  return isPlaceVariable(name) || std::ranges::find(kOthers, name) != kOthers.end() ||
         std::ranges::any_of(toVariables(ClusterWords()), named) ||
         std::ranges::any_of(settings(), [&](const Setting& setting) {
           return variableName(setting.name) == name;
         });
}

}  // namespace

std::vector<std::string> unknownVariables(const char* const* entries) {
  std::vector<std::string> unknown;
  for (; *entries != nullptr; ++entries) {
    const std::string_view entry = *entries;
    const std::string_view name = entry.substr(0, entry.find('='));
    if (name.starts_with("COLLA_") && !isKnown(name)) unknown.emplace_back(name);
  }
  std::ranges::sort(unknown);
  return unknown;
}

std::string unknownVariablesNotice() {
  const auto unknown = unknownVariables(environ);
  if (unknown.empty()) return "";
  return fmt::format("{} {} set, but nothing reads {} (`colla settings` lists what there is)",
                     fmt::join(unknown, ", "), unknown.size() == 1 ? "is" : "are",
                     unknown.size() == 1 ? "it" : "them");
}

}  // namespace colla::job
