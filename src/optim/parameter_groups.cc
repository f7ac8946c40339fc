#include "optim/parameter_groups.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <cmath>

#include "base/invalid.h"

namespace colla {
namespace {

bool matches(const ParameterGroup& group, const std::string& name) {
  return fnmatch(group.parameters.c_str(), name.c_str(), 0) == 0;
}

// The first names of a model, for a message.
std::string someOf(std::span<const std::string> names) {
  constexpr std::size_t kShown = 6;
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kShown; ++i) {
    text += fmt::format("{}{}", i > 0 ? ", " : "", names[i]);
  }
  return names.size() > kShown ? fmt::format("{}, … ({} in all)", text, names.size()) : text;
}

}  // namespace

Status validate(const ParameterGroup& group) {
  if (group.parameters.empty()) return invalid("a group has no pattern for its parameters' names");
  const ParameterGroup nothing{.parameters = group.parameters, .frozen = true};
  if (group.frozen && group != nothing) {
    return invalid("group \"{}\" is frozen: it takes no options", group.parameters);
  }
  if (!std::isfinite(group.lrFactor) || group.lrFactor < 0) {
    return invalid("group \"{}\": lrFactor is {}: it must be a number of at least 0",
                   group.parameters, group.lrFactor);
  }
  return validate(optim::optimizerOf(group, Sgd{}))
      .withContext(fmt::format("group \"{}\"", group.parameters));
}

std::string toString(const ParameterGroup& group) {
  std::string text = fmt::format("\"{}\":", group.parameters);
  if (group.frozen) return text + " frozen";
  if (group.optimizer) text += fmt::format(" {}", toString(*group.optimizer));
  if (group.lrFactor != 1) text += fmt::format(" lr_factor={}", group.lrFactor);
  if (group.weightDecay) text += fmt::format(" weight_decay={}", *group.weightDecay);
  return text;
}

}  // namespace colla

namespace colla::optim {

Result<std::vector<std::optional<std::size_t>>> groupsOf(std::span<const ParameterGroup> groups,
                                                         std::span<const std::string> names) {
  std::vector<std::optional<std::size_t>> found(names.size());
  for (std::size_t group = 0; group < groups.size(); ++group) {
    COLLA_TRY(validate(groups[group]));
    bool any = false;
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (!matches(groups[group], names[i])) continue;
      if (found[i]) {
        return invalid("parameter \"{}\" is in two groups, \"{}\" and \"{}\": it can be in one",
                       names[i], groups[*found[i]].parameters, groups[group].parameters);
      }
      found[i] = group;
      any = true;
    }
    if (!any) {
      return invalid("group \"{}\" has no parameter: those that the model trains are {}",
                     groups[group].parameters, someOf(names));
    }
  }
  return found;
}

OptimizerOptions optimizerOf(const ParameterGroup& group, const OptimizerOptions& base) {
  OptimizerOptions options = group.optimizer.value_or(base);
  setLearningRate(options, learningRate(options) * group.lrFactor);
  if (group.weightDecay) {
    std::visit([&](auto& chosen) { chosen.weightDecay = *group.weightDecay; }, options);
  }
  return options;
}

}  // namespace colla::optim
