// The arithmetic of a reduction, element by element.
//
// An element's result depends on its values alone, never on its place: vector body and tail use
// the same operations, and nothing is contracted. Built for more than one instruction set; all
// give the same bits, and the best that this CPU has is chosen at the first call.
#pragma once

#include <cstddef>

#include "colla/collectives.h"
#include "colla/data_type.h"

namespace colla::collective {

struct Kernels {
  // out[i] = left[i] op right[i]. `out` may be either operand.
  void (*combine)(void* out, const void* left, const void* right, std::size_t count);
  // The same for the root of the tree: sums start from +0.0, averages are divided by `divisor`.
  void (*combineRoot)(void* out, const void* left, const void* right, std::size_t count,
                      double divisor);
  // The same into two places in one pass: what two ranks that share memory spend their time on.
  void (*combineRootTwice)(void* out, void* also, const void* left, const void* right,
                           std::size_t count, double divisor);
  // The root of a tree with one leaf.
  void (*finish)(void* out, const void* in, std::size_t count, double divisor);
};

// 16-bit floats as the float32 values that they are added as, and back: rounded to nearest, ties to
// even.
struct Widening {
  void (*widen)(float* out, const void* in, std::size_t count);
  void (*round)(void* out, const float* in, std::size_t count);
};

// Copies bytes that another core has just written, or reads where it has written before, with plain
// vector loads and stores. Where it was measured, an allreduce through staging was several times
// faster than with memcpy; why has not been looked into.
void copyBytes(void* out, const void* in, std::size_t bytes);

// Copies bytes that another core reads next to memory that it has read before and will not write:
// past this core's caches, so that none of its lines has to be taken from the other one first. That
// made an allreduce through staging three to four times as fast. They are in sight of others after
// finishStaging() and whatever tells that they are there.
void stageBytes(void* out, const void* in, std::size_t bytes);
void finishStaging();

// Whether `op` is defined for `type`: an average of integers is not.
bool supported(DataType type, ReduceOp op);
// For a supported pair.
const Kernels& kernelsFor(DataType type, ReduceOp op);
// Null for a type that is added as it is.
const Widening* wideningFor(DataType type);

}  // namespace colla::collective
