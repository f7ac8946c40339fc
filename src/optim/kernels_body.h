// The kernels themselves, compiled once per instruction set (kernels_baseline.cc,
// kernels_avx2.cc): everything here is in an unnamed namespace and nothing of the standard library
// is called, so that the linker can't mix the versions up. Loops are written for the compiler's
// vectoriser: no branches, no calls.
//
// The formulas are torch's, with the same order of operations where it costs nothing. Square root
// and division are the exact ones of IEEE 754, which vectors round as single numbers do.
#pragma once

#include "optim/kernels.h"

namespace colla::optim {
namespace {

inline float squareRoot(float value) { return __builtin_sqrtf(value); }
inline double squareRoot(double value) { return __builtin_sqrt(value); }

// A NaN on the right is the result. (The maximum is on the left: it is NaN only when the average on
// the right has become NaN, which it then stays.)
template <typename T>
T larger(T left, T right) {
  return left > right ? left : right;
}

// One place of all the arrays, in registers.
template <typename T>
struct Element {
  T parameter;
  T gradient;
  T slot[kMaxSlots];
};

// Leaves in `e.gradient` what the method goes on with.
template <Decay decay, typename T>
void scaleAndDecay(const Coefficients<T>& c, Element<T>& e) {
  e.gradient *= c.gradScale;
  if constexpr (decay == Decay::kGradient) e.gradient += c.weightDecay * e.parameter;
  if constexpr (decay == Decay::kParameter) e.parameter *= c.shrink;
}

// Each method: which slots it has, and what becomes of one element.
template <Decay decay>
struct PlainSgd {
  static constexpr bool kHas[kMaxSlots] = {false, false, false};

  template <typename T>
  static void update(const Coefficients<T>& c, Element<T>& e) {
    scaleAndDecay<decay>(c, e);
    e.parameter -= c.rate * e.gradient;
  }
};

template <Decay decay, bool nesterov, bool firstStep>
struct MomentumSgd {
  static constexpr bool kHas[kMaxSlots] = {true, false, false};

  template <typename T>
  static void update(const Coefficients<T>& c, Element<T>& e) {
    scaleAndDecay<decay>(c, e);
    T& buffer = e.slot[0];
    buffer = firstStep ? e.gradient : buffer * c.momentum + c.undamped * e.gradient;
    e.parameter -= c.rate * (nesterov ? e.gradient + c.momentum * buffer : buffer);
  }
};

template <Decay decay>
struct AdagradStep {
  static constexpr bool kHas[kMaxSlots] = {true, false, false};

  template <typename T>
  static void update(const Coefficients<T>& c, Element<T>& e) {
    scaleAndDecay<decay>(c, e);
    T& sum = e.slot[0];
    sum += e.gradient * e.gradient;
    e.parameter -= c.rate * e.gradient / (squareRoot(sum) + c.epsilon);
  }
};

template <Decay decay, bool momentum, bool centered>
struct RmsPropStep {
  static constexpr bool kHas[kMaxSlots] = {true, momentum, centered};

  template <typename T>
  static void update(const Coefficients<T>& c, Element<T>& e) {
    scaleAndDecay<decay>(c, e);
    T& squareAverage = e.slot[0];
    T& buffer = e.slot[1];
    T& average = e.slot[2];
    squareAverage = squareAverage * c.beta2 + c.fresh2 * e.gradient * e.gradient;
    T variance = squareAverage;
    if constexpr (centered) {
      average = average * c.beta2 + c.fresh2 * e.gradient;
      variance -= average * average;
    }
    const T deviation = squareRoot(variance) + c.epsilon;
    if constexpr (momentum) {
      buffer = buffer * c.momentum + e.gradient / deviation;
      e.parameter -= c.rate * buffer;
    } else {
      e.parameter -= c.rate * e.gradient / deviation;
    }
  }
};

// The bias corrections are in rate and epsilon: one division less for each element.
template <Decay decay, bool amsgrad>
struct AdamStep {
  static constexpr bool kHas[kMaxSlots] = {true, true, amsgrad};

  template <typename T>
  static void update(const Coefficients<T>& c, Element<T>& e) {
    scaleAndDecay<decay>(c, e);
    T& average = e.slot[0];
    T& squareAverage = e.slot[1];
    T& largest = e.slot[2];
    average = average * c.beta1 + c.fresh1 * e.gradient;
    squareAverage = squareAverage * c.beta2 + c.fresh2 * e.gradient * e.gradient;
    if constexpr (amsgrad) largest = larger(largest, squareAverage);
    e.parameter -= c.rate * average / (squareRoot(amsgrad ? largest : squareAverage) + c.epsilon);
  }
};

template <typename T, typename Step>
void run(const Coefficients<T>& coefficients, T* __restrict parameter, const T* __restrict gradient,
         T* __restrict slot0, T* __restrict slot1, T* __restrict slot2, std::size_t count) {
  const Coefficients<T> c = coefficients;
  for (std::size_t i = 0; i < count; ++i) {
    Element<T> e{parameter[i], gradient[i], {}};
    if constexpr (Step::kHas[0]) e.slot[0] = slot0[i];
    if constexpr (Step::kHas[1]) e.slot[1] = slot1[i];
    if constexpr (Step::kHas[2]) e.slot[2] = slot2[i];
    Step::update(c, e);
    parameter[i] = e.parameter;
    if constexpr (Step::kHas[0]) slot0[i] = e.slot[0];
    if constexpr (Step::kHas[1]) slot1[i] = e.slot[1];
    if constexpr (Step::kHas[2]) slot2[i] = e.slot[2];
  }
}

template <typename T, Decay decay>
Kernel<T> findDecayed(const Form& form) {
  switch (form.method) {
    case Method::kSgd:
      if (!form.momentum) return run<T, PlainSgd<decay>>;
      if (form.firstStep) {
        return form.nesterov ? run<T, MomentumSgd<decay, true, true>>
                             : run<T, MomentumSgd<decay, false, true>>;
      }
      return form.nesterov ? run<T, MomentumSgd<decay, true, false>>
                           : run<T, MomentumSgd<decay, false, false>>;
    case Method::kAdagrad:
      return run<T, AdagradStep<decay>>;
    case Method::kRmsProp:
      if (form.momentum) {
        return form.centered ? run<T, RmsPropStep<decay, true, true>>
                             : run<T, RmsPropStep<decay, true, false>>;
      }
      return form.centered ? run<T, RmsPropStep<decay, false, true>>
                           : run<T, RmsPropStep<decay, false, false>>;
    case Method::kAdam:
      return form.amsgrad ? run<T, AdamStep<decay, true>> : run<T, AdamStep<decay, false>>;
  }
  return nullptr;
}

template <typename T>
Kernel<T> find(const Form& form) {
  if (form.decay == Decay::kNone) return findDecayed<T, Decay::kNone>(form);
  if (form.decay == Decay::kGradient) return findDecayed<T, Decay::kGradient>(form);
  // Adam's alone.
  return form.amsgrad ? run<T, AdamStep<Decay::kParameter, true>>
                      : run<T, AdamStep<Decay::kParameter, false>>;
}

// Eight sums side by side, each over every eighth element, whatever the width of the registers;
// then one sum of pairs.
constexpr std::size_t kLanes = 8;

template <typename T>
double sumOfBlock(const T* values, std::size_t count) {
  double sum[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const double value = values[i + lane];
      sum[lane] += value * value;
    }
  }
  for (std::size_t lane = 0; i + lane < count; ++lane) {
    const double value = values[i + lane];
    sum[lane] += value * value;
  }
  return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

}  // namespace
}  // namespace colla::optim
