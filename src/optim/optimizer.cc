#include "colla/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "base/nearest.h"

namespace colla {
namespace {

std::string_view nameOf(const Sgd& /*options*/) { return "sgd"; }
std::string_view nameOf(const Adagrad& /*options*/) { return "adagrad"; }
std::string_view nameOf(const RmsProp& /*options*/) { return "rmsprop"; }
std::string_view nameOf(const Adam& /*options*/) { return "adam"; }
std::string_view nameOf(const AdamW& /*options*/) { return "adamw"; }

Status refuse(std::string_view name, double value, std::string_view rule) {
  return {StatusCode::kInvalidArgument, fmt::format("{} is {}: it must be {}", name, value, rule)};
}

Status atLeastZero(std::string_view name, double value) {
  if (std::isfinite(value) && value >= 0) return {};
  return refuse(name, value, "a number of at least 0");
}

// What the weight of the past in a running average may be.
Status belowOne(std::string_view name, double value) {
  if (value >= 0 && value < 1) return {};
  return refuse(name, value, "at least 0 and below 1");
}

Status check(const Sgd& options) {
  COLLA_TRY(atLeastZero("momentum", options.momentum));
  if (!std::isfinite(options.dampening)) {
    return refuse("dampening", options.dampening, "a finite number");
  }
  if (options.nesterov && options.momentum == 0) {
    return {StatusCode::kInvalidArgument,
            "nesterov needs a momentum: set one (0.9 is usual), or nesterov to false"};
  }
  if (options.nesterov && options.dampening != 0) {
    return refuse("dampening", options.dampening, "0 with nesterov");
  }
  return {};
}

Status check(const Adagrad& options) {
  COLLA_TRY(atLeastZero("lr_decay", options.lrDecay));
  COLLA_TRY(atLeastZero("initial_accumulator", options.initialAccumulator));
  return atLeastZero("epsilon", options.epsilon);
}

Status check(const RmsProp& options) {
  COLLA_TRY(belowOne("alpha", options.alpha));
  COLLA_TRY(atLeastZero("epsilon", options.epsilon));
  return atLeastZero("momentum", options.momentum);
}

template <typename AnyAdam>
Status check(const AnyAdam& options) {
  COLLA_TRY(belowOne("beta1", options.beta1));
  COLLA_TRY(belowOne("beta2", options.beta2));
  return atLeastZero("epsilon", options.epsilon);
}

// The numbers of each beside its rate, under their names.
void visitNumbers(auto& options, const auto& visit) requires
    std::same_as<std::remove_cvref_t<decltype(options)>, Sgd> {
  visit("momentum", options.momentum);
  visit("dampening", options.dampening);
  visit("weight_decay", options.weightDecay);
  visit("nesterov", options.nesterov);
}

void visitNumbers(auto& options, const auto& visit) requires
    std::same_as<std::remove_cvref_t<decltype(options)>, Adagrad> {
  visit("lr_decay", options.lrDecay);
  visit("weight_decay", options.weightDecay);
  visit("initial_accumulator", options.initialAccumulator);
  visit("epsilon", options.epsilon);
}

void visitNumbers(auto& options, const auto& visit) requires
    std::same_as<std::remove_cvref_t<decltype(options)>, RmsProp> {
  visit("alpha", options.alpha);
  visit("epsilon", options.epsilon);
  visit("weight_decay", options.weightDecay);
  visit("momentum", options.momentum);
  visit("centered", options.centered);
}

void visitNumbers(auto& options, const auto& visit) requires
    std::same_as<std::remove_cvref_t<decltype(options)>, Adam> ||
    std::same_as<std::remove_cvref_t<decltype(options)>, AdamW> {
  visit("beta1", options.beta1);
  visit("beta2", options.beta2);
  visit("epsilon", options.epsilon);
  visit("weight_decay", options.weightDecay);
  visit("amsgrad", options.amsgrad);
}

bool read(std::string_view text, double& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

bool read(std::string_view text, bool& value) {
  value = text == "true";
  return value || text == "false";
}

// One "name=value" of a text.
Status set(OptimizerOptions& options, std::string_view setting) {
  const std::size_t equals = setting.find('=');
  const std::string_view name = setting.substr(0, equals);
  const std::string_view text =
      equals == std::string_view::npos ? std::string_view() : setting.substr(equals + 1);
  bool known = false;
  bool good = false;
  std::visit(
      [&](auto& chosen) {
        const auto offer = [&](std::string_view its, auto& value) {
          if (name != its) return;
          known = true;
          good = read(text, value);
        };
        offer("lr", chosen.lr);
        visitNumbers(chosen, offer);
      },
      options);
  if (good) return {};
  return {StatusCode::kInvalidArgument,
          known ? fmt::format("optimizer: {} is \"{}\", which is no value for it", name, text)
                : fmt::format("optimizer: there is no \"{}\"", name)};
}

// What users call an optimizer with its default numbers.
struct Named {
  std::string_view name;
  OptimizerOptions (*make)();
};
constexpr std::array kNamed = {
    Named{"sgd", [] { return OptimizerOptions(Sgd{}); }},
    Named{"momentum", [] { return OptimizerOptions(Sgd{.momentum = 0.9}); }},
    Named{"adagrad", [] { return OptimizerOptions(Adagrad{}); }},
    Named{"rmsprop", [] { return OptimizerOptions(RmsProp{}); }},
    Named{"adam", [] { return OptimizerOptions(Adam{}); }},
    Named{"adamw", [] { return OptimizerOptions(AdamW{}); }},
};

}  // namespace

Result<OptimizerOptions> parseOptimizer(std::string_view name) {
  const auto it = std::ranges::find(kNamed, name, &Named::name);
  if (it != kNamed.end()) return it->make();
  if (const std::size_t space = name.find(' '); space != std::string_view::npos) {
    COLLA_TRY_ASSIGN(OptimizerOptions options, parseOptimizer(name.substr(0, space)));
    std::istringstream words{std::string(name.substr(space))};
    for (std::string word; words >> word;) COLLA_TRY(set(options, word));
    return options;
  }
  std::vector<std::string> names;
  for (const Named& one : kNamed) names.emplace_back(one.name);
  return {StatusCode::kInvalidArgument, fmt::format("optimizer \"{}\" is not one of {}{}", name,
                                                    optimizerNames(), didYouMean(name, names))};
}

std::string optimizerNames() {
  std::string text;
  for (const Named& one : kNamed) text += fmt::format("{}{}", text.empty() ? "" : ", ", one.name);
  return text;
}

Status validate(const OptimizerOptions& options) {
  return std::visit(
      [](const auto& chosen) {
        const auto all = [&chosen]() -> Status {
          COLLA_TRY(atLeastZero("lr", chosen.lr));
          COLLA_TRY(atLeastZero("weight_decay", chosen.weightDecay));
          return check(chosen);
        };
        return all().withContext(fmt::format("optimizer {}", nameOf(chosen)));
      },
      options);
}

std::string toString(const OptimizerOptions& options) {
  return std::visit(
      [](const auto& chosen) {
        // fmt writes the shortest decimal that reads back as the same number.
        std::string text = fmt::format("{} lr={}", nameOf(chosen), chosen.lr);
        visitNumbers(chosen, [&](std::string_view name, const auto& value) {
          text += fmt::format(" {}={}", name, value);
        });
        return text;
      },
      options);
}

double learningRate(const OptimizerOptions& options) {
  return std::visit([](const auto& chosen) { return chosen.lr; }, options);
}

void setLearningRate(OptimizerOptions& options, double lr) {
  std::visit([lr](auto& chosen) { chosen.lr = lr; }, options);
}

}  // namespace colla
