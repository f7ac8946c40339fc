// Options that between them take every path through the update rule, and states to run it on.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <type_traits>
#include <vector>

#include "colla/optimizer.h"
#include "optim/update_rule.h"

namespace colla::optim {

inline std::vector<OptimizerOptions> allOptions() {
  std::vector<OptimizerOptions> all;
  for (const double decay : {0.0, 0.05}) {
    all.emplace_back(Sgd{.lr = 0.1, .weightDecay = decay});
    all.emplace_back(Sgd{.lr = 0.1, .momentum = 0.9, .weightDecay = decay});
    all.emplace_back(Sgd{.lr = 0.1, .momentum = 0.8, .dampening = 0.3, .weightDecay = decay});
    all.emplace_back(Sgd{.lr = 0.1, .momentum = 0.9, .weightDecay = decay, .nesterov = true});
    all.emplace_back(Adagrad{.weightDecay = decay});
    all.emplace_back(
        Adagrad{.lr = 0.05, .lrDecay = 0.1, .weightDecay = decay, .initialAccumulator = 0.2});
    for (const bool flag : {false, true}) {
      all.emplace_back(RmsProp{.weightDecay = decay, .centered = flag});
      all.emplace_back(
          RmsProp{.alpha = 0.9, .weightDecay = decay, .momentum = 0.9, .centered = flag});
      all.emplace_back(Adam{.weightDecay = decay, .amsgrad = flag});
      all.emplace_back(Adam{.lr = 0.01,
                            .beta1 = 0.8,
                            .beta2 = 0.9,
                            .epsilon = 1e-6,
                            .weightDecay = decay,
                            .amsgrad = flag});
      all.emplace_back(AdamW{.weightDecay = decay, .amsgrad = flag});
    }
  }
  return all;
}

// A parameter with its gradient and its slots.
template <typename T>
struct Tensor {
  std::vector<T> parameter;
  std::vector<T> gradient;
  std::vector<std::vector<T>> slots;

  Tensor(const UpdateRule& rule, std::size_t count) : parameter(count), gradient(count) {
    for (const Slot& slot : rule.slots()) {
      slots.emplace_back(count, static_cast<T>(slot.initial));
    }
  }

  std::size_t size() const { return parameter.size(); }

  std::vector<std::span<T>> slotSpans(std::size_t begin, std::size_t count) {
    std::vector<std::span<T>> spans;
    for (auto& slot : slots) spans.push_back(std::span(slot).subspan(begin, count));
    return spans;
  }

  void apply(const UpdateRule& rule, const Update& update, std::size_t begin, std::size_t count) {
    rule.apply<T>(update, std::span(parameter).subspan(begin, count),
                  std::span<const T>(gradient).subspan(begin, count), slotSpans(begin, count));
  }
  void apply(const UpdateRule& rule, const Update& update) { apply(rule, update, 0, size()); }
};

template <typename T>
std::vector<T> randomValues(std::mt19937& random, std::size_t count) {
  std::normal_distribution<T> normal;
  std::vector<T> values(count);
  for (T& value : values) value = normal(random);
  return values;
}

// Gradients as they come, with the values in between that break careless kernels.
template <typename T>
std::vector<T> awkwardValues(std::mt19937& random, std::size_t count) {
  using Limits = std::numeric_limits<T>;
  const T special[] = {T{0},
                       -T{0},
                       Limits::denorm_min(),
                       -Limits::min(),
                       Limits::max(),
                       -Limits::max(),
                       Limits::infinity(),
                       -Limits::infinity(),
                       T{1e-20},
                       Limits::quiet_NaN()};
  auto values = randomValues<T>(random, count);
  for (T& value : values) {
    if (random() % 8 == 0) value = special[random() % std::size(special)];
  }
  return values;
}

// Equal bits, but for the payload and sign of a NaN, which IEEE 754 leaves open.
template <typename T>
bool sameBits(T left, T right) {
  if (std::isnan(left) || std::isnan(right)) return std::isnan(left) && std::isnan(right);
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  return std::bit_cast<Bits>(left) == std::bit_cast<Bits>(right);
}

template <typename T>
bool sameBits(std::span<const T> left, std::span<const T> right) {
  if (left.size() != right.size()) return false;
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (!sameBits(left[i], right[i])) return false;
  }
  return true;
}

template <typename T>
bool sameBits(const Tensor<T>& left, const Tensor<T>& right) {
  if (!sameBits<T>(std::span<const T>(left.parameter), right.parameter)) return false;
  for (std::size_t i = 0; i < left.slots.size(); ++i) {
    if (!sameBits<T>(std::span<const T>(left.slots[i]), right.slots[i])) return false;
  }
  return left.slots.size() == right.slots.size();
}

}  // namespace colla::optim
