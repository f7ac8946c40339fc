// The global norm of the gradients, and clipping by it.
//
// A sum of squares depends on the values and their order alone. Whoever holds a parameter sums it,
// and whoever adds the parameters' sums up does so in the order of the parameters.
#pragma once

#include <cstddef>
#include <span>

namespace colla::optim {

// Tensors are cut into blocks of so many elements, and the blocks' sums are added in order,
// starting from +0.0.
inline constexpr std::size_t kNormBlock = 4096;

// In float64. Who holds a part of a tensor, cut between blocks, gets the sum of each of its blocks
// by a call for it: added in order they are the sum of the whole, bit for bit. For float and
// double.
template <typename T>
double sumOfSquares(std::span<const T> values);

// What gradients of the global norm `norm` are multiplied by (Update::gradScale) to have at most
// `maxNorm`: maxNorm / (norm + 1e-6) as in torch, at most 1. NaN for a norm of NaN.
double clipFactor(double norm, double maxNorm);

}  // namespace colla::optim
