// The arithmetic of the optimizers, element by element.
//
// An element's result depends on its values alone, never on its place: vector body and tail use
// the same operations, and nothing is contracted. Built for more than one instruction set; all
// give the same bits, NaN payloads apart, and the best that this CPU has is chosen at the first
// call.
#pragma once

#include <cstddef>

namespace colla::optim {

constexpr int kMaxSlots = 3;

enum class Method { kSgd, kAdagrad, kRmsProp, kAdam };

enum class Decay {
  kNone,       // A decay of 0 is not the same: it would add 0 to a gradient of -0.0.
  kGradient,   // Added to the gradient.
  kParameter,  // AdamW: shrinks the parameter.
};

// Which operations an update consists of; each has a loop of its own.
struct Form {
  Method method = Method::kSgd;
  Decay decay = Decay::kNone;
  bool momentum = false;
  bool nesterov = false;
  bool firstStep = false;  // SGD: the gradient becomes the momentum, undampened.
  bool centered = false;
  bool amsgrad = false;
};

// The numbers that a form uses, rounded once from float64 as torch rounds them.
template <typename T>
struct Coefficients {
  T gradScale;
  T weightDecay;
  T shrink;  // What kParameter multiplies the parameter by.
  T rate;
  T momentum;
  T undamped;       // 1 - dampening.
  T beta1, fresh1;  // Running averages: weight of the past, and of the new value.
  T beta2, fresh2;
  T epsilon;
};

// Updates `count` elements. Slots by their place: for SGD momentum; for Adagrad the sum; for
// RMSprop square average, momentum, average; for Adam average, square average, its maximum. Those
// that the form lacks are null. No two arrays overlap.
template <typename T>
using Kernel = void (*)(const Coefficients<T>& coefficients, T* parameter, const T* gradient,
                        T* slot0, T* slot1, T* slot2, std::size_t count);

// The sum of the squares of one block, in float64.
template <typename T>
using SquareKernel = double (*)(const T* values, std::size_t count);

// For T = float and double.
template <typename T>
Kernel<T> kernelFor(const Form& form);
template <typename T>
SquareKernel<T> squareKernel();

}  // namespace colla::optim
