// Between torch's tensors and Colla's typed memory.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

#include "colla/buffer.h"
#include "colla/collectives.h"

namespace colla::c10d {

// The same elements in one piece: `tensor` itself where it is, otherwise a copy.
at::Tensor packed(const at::Tensor& tensor);
// What packed() made of `tensor` goes back to it, unless it is `tensor` itself.
void unpack(const at::Tensor& from, const at::Tensor& tensor);

// Several tensors of one type as one packed tensor without dimensions, one behind the other. Where
// they lie like that in memory already, it is their own memory; otherwise flatten() copies, and
// flatLike() leaves the contents open.
at::Tensor flatten(const std::vector<at::Tensor>& tensors);
at::Tensor flatLike(const std::vector<at::Tensor>& tensors);
// The parts of a flat tensor go back to `tensors`.
void unflatten(const at::Tensor& flat, const std::vector<at::Tensor>& tensors);

// The memory of a packed tensor. A type that Colla does not know is moved as bytes: for operations
// that don't look at elements.
Buffer memoryOf(const at::Tensor& tensor);

// The same for reductions: a complex tensor is twice as many real ones. Throws for types and
// operations that there are none for; `what` names the operation ("allreduce").
Buffer numbersOf(const at::Tensor& tensor, const ::c10d::ReduceOp& op, const char* what);

// Colla's operation for torch's on numbers of `tensor`'s type, unless that is a bitwise one.
ReduceOp reduceOp(const ::c10d::ReduceOp& op, const at::Tensor& tensor);
bool isBitwise(const ::c10d::ReduceOp& op);

// What reduceOp() leaves to do: the average of integers is their sum, divided, and truncated
// towards zero.
void finishAverage(const at::Tensor& tensor, const ::c10d::ReduceOp& op, int ranks);

// `target` becomes `target op other`, by torch's own arithmetic.
void foldInto(at::Tensor& target, const at::Tensor& other, const ::c10d::ReduceOp& op);

}  // namespace colla::c10d
