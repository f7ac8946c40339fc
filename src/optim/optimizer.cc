#include "colla/optimizer.h"

#include <fmt/format.h>

#include <cmath>

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

// fmt writes the shortest decimal that reads back as the same number.
std::string numbers(const Sgd& options) {
  return fmt::format("momentum={} dampening={} weight_decay={} nesterov={}", options.momentum,
                     options.dampening, options.weightDecay, options.nesterov);
}

std::string numbers(const Adagrad& options) {
  return fmt::format("lr_decay={} weight_decay={} initial_accumulator={} epsilon={}",
                     options.lrDecay, options.weightDecay, options.initialAccumulator,
                     options.epsilon);
}

std::string numbers(const RmsProp& options) {
  return fmt::format("alpha={} epsilon={} weight_decay={} momentum={} centered={}", options.alpha,
                     options.epsilon, options.weightDecay, options.momentum, options.centered);
}

template <typename AnyAdam>
std::string numbers(const AnyAdam& options) {
  return fmt::format("beta1={} beta2={} epsilon={} weight_decay={} amsgrad={}", options.beta1,
                     options.beta2, options.epsilon, options.weightDecay, options.amsgrad);
}

}  // namespace

Result<OptimizerOptions> parseOptimizer(std::string_view name) {
  if (name == "sgd") return OptimizerOptions(Sgd{});
  if (name == "momentum") return OptimizerOptions(Sgd{.momentum = 0.9});
  if (name == "adagrad") return OptimizerOptions(Adagrad{});
  if (name == "rmsprop") return OptimizerOptions(RmsProp{});
  if (name == "adam") return OptimizerOptions(Adam{});
  if (name == "adamw") return OptimizerOptions(AdamW{});
  return {StatusCode::kInvalidArgument,
          fmt::format("optimizer \"{}\" is not one of sgd, momentum, adagrad, rmsprop, adam, adamw",
                      name)};
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
        return fmt::format("{} lr={} {}", nameOf(chosen), chosen.lr, numbers(chosen));
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
