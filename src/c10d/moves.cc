// The collectives that only move tensors.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "c10d/arguments.h"
#include "c10d/process_group.h"
#include "c10d/tensors.h"
#include "colla/collectives.h"

namespace colla::c10d {
namespace {

using ::c10d::OpType;

// Every rank has brought one `input`, whose copies go to `outputs`, one for each rank.
Status gatherAll(Group& group, const at::Tensor& input, const Tensors& outputs,
                 std::chrono::milliseconds timeout) {
  const at::Tensor own = packed(input);
  const at::Tensor all = flatLike(outputs);
  COLLA_TRY(colla::allgather(group, memoryOf(own), memoryOf(all), {timeout}));
  unflatten(all, outputs);
  return {};
}

void checkGathered(const char* operation, const at::Tensor& output, const at::Tensor& input,
                   int size) {
  checkPlain(operation, {output, input});
  TORCH_CHECK(output.scalar_type() == input.scalar_type(), "colla: ", operation,
              ": output tensor must have the same type as input tensor (", output.scalar_type(),
              " and ", input.scalar_type(), ")");
  TORCH_CHECK(output.numel() == input.numel() * size, "colla: ", operation,
              ": output tensor size must be equal to world_size times input tensor size (",
              output.numel(), " elements, but ", size, " x ", input.numel(), ")");
}

// How many elements go to or come from each rank; no splits: the same for all.
std::vector<std::size_t> countsOf(const std::vector<std::int64_t>& splits, const at::Tensor& tensor,
                                  int size) {
  const std::int64_t rows = tensor.dim() == 0 ? 1 : tensor.size(0);
  const std::int64_t row = rows == 0 ? 1 : tensor.numel() / rows;
  std::vector<std::size_t> counts(static_cast<std::size_t>(size),
                                  static_cast<std::size_t>(rows / size * row));
  for (std::size_t i = 0; i < splits.size(); ++i) {
    counts[i] = static_cast<std::size_t>(splits[i] * row);
  }
  return counts;
}

std::vector<std::size_t> countsOf(const Tensors& tensors) {
  std::vector<std::size_t> counts;
  for (const at::Tensor& tensor : tensors) {
    counts.push_back(static_cast<std::size_t>(tensor.numel()));
  }
  return counts;
}

// As with Gloo, tensors have one shape. Beyond it, their numbers of elements may differ; then a
// rank can compare no more than what it sends to itself.
void checkExchanged(const char* operation, const Tensors& outputs, const Tensors& inputs,
                    int rank) {
  const auto even = [](const Tensors& tensors) {
    return std::ranges::all_of(
        tensors, [&](const at::Tensor& tensor) { return tensor.numel() == tensors[0].numel(); });
  };
  const bool all = even(inputs) && even(outputs);
  const auto first = all ? 0 : static_cast<std::size_t>(rank);
  for (const Tensors* tensors : {&inputs, &outputs}) {
    for (std::size_t i = first; i < (all ? tensors->size() : first + 1); ++i) {
      TORCH_CHECK((*tensors)[i].sizes() == inputs[first].sizes(), "colla: ", operation,
                  ": invalid tensor size at index ", i, " (expected ", inputs[first].sizes(),
                  ", got ", (*tensors)[i].sizes(), ")");
    }
  }
}

// Elements as memoryOf() counts them: a type that Colla does not know counts in bytes.
Status exchange(Group& group, const at::Tensor& input, std::vector<std::size_t> inputCounts,
                const at::Tensor& output, std::vector<std::size_t> outputCounts,
                std::chrono::milliseconds timeout) {
  const Buffer from = memoryOf(input);
  const Buffer to = memoryOf(output);
  const std::size_t unit = input.element_size() / sizeOf(from.type());
  for (std::size_t& count : inputCounts) count *= unit;
  for (std::size_t& count : outputCounts) count *= unit;
  return alltoallv(group, from, inputCounts, to, outputCounts, {timeout});
}

}  // namespace

WorkPtr ProcessGroup::broadcast(Tensors& tensors, const ::c10d::BroadcastOptions& options) {
  const auto refuse = refusing("broadcast");
  ::c10d::assertRootRank(refuse, options.rootRank, size_);
  ::c10d::assertRootTensor(refuse, options.rootTensor, static_cast<std::int64_t>(tensors.size()));
  checkPlain("broadcast", tensors);
  ::c10d::assertTypeAndSizesMatch(refuse, tensors);
  return run({OpType::BROADCAST, "colla:broadcast"}, tensors, {tensors}, options.asyncOp,
             [tensors, options, timeout = timeoutOr(options.timeout)](Group& group) -> Status {
               const at::Tensor& first = tensors[static_cast<std::size_t>(options.rootTensor)];
               const at::Tensor whole = packed(first);
               COLLA_TRY(colla::broadcast(group, memoryOf(whole),
                                          static_cast<int>(options.rootRank), {timeout}));
               for (const at::Tensor& tensor : tensors) {
                 if (group.rank() != options.rootRank || !tensor.is_same(first)) {
                   unpack(whole, tensor);
                 }
               }
               return {};
             });
}

WorkPtr ProcessGroup::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                const ::c10d::AllgatherOptions& options) {
  const auto refuse = refusing("allgather");
  ::c10d::assertNonEmptyInputTensorList(refuse, inputs.size());
  ::c10d::assertInputOutputTensorListsSameSize(refuse, outputs.size(), inputs.size());
  for (const Tensors& list : outputs) {
    const auto expected = inputs.size() * static_cast<std::size_t>(size_);
    if (list.size() != expected) {
      refuse(fmt::format("invalid output tensor list at index {} (expected length {}, got {})",
                         &list - outputs.data(), expected, list.size()));
    }
  }
  checkPlain("allgather", inputs);
  ::c10d::assertTypeAndSizesMatch(refuse, inputs);
  for (const Tensors& list : outputs) {
    ::c10d::assertTypeAndSizesMatch(refuse, list, inputs[0].options(), inputs[0].sizes());
  }
  return run({OpType::ALLGATHER, "colla:all_gather"}, inputs, outputs, options.asyncOp,
             [outputs, inputs, timeout = timeoutOr(options.timeout)](Group& group) -> Status {
               const at::Tensor own = flatten(inputs);
               const at::Tensor all = flatLike(outputs[0]);
               COLLA_TRY(colla::allgather(group, memoryOf(own), memoryOf(all), {timeout}));
               for (const Tensors& list : outputs) {
                 if (&list == &outputs[0] || !list[0].is_same(outputs[0][0])) unflatten(all, list);
               }
               return {};
             });
}

WorkPtr ProcessGroup::_allgather_base(at::Tensor& output, at::Tensor& input,
                                      const ::c10d::AllgatherOptions& options) {
  checkGathered("_allgather_base", output, input, size_);
  return run({OpType::_ALLGATHER_BASE, "colla:_all_gather_base"}, Tensors{input}, {{output}},
             options.asyncOp, [output, input, timeout = timeoutOr(options.timeout)](Group& group) {
               return gatherAll(group, input, {output}, timeout);
             });
}

WorkPtr ProcessGroup::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                          const ::c10d::AllgatherOptions& options) {
  const auto refuse = refusing("allgather_coalesced");
  ::c10d::assertNonEmptyInputTensorList(refuse, inputs.size());
  ::c10d::assertAllgatherCoalescedOutputTensorLists(refuse, outputs, inputs.size(), size_);
  checkPlain("allgather_coalesced", inputs);
  for (const Tensors& list : outputs) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (list[i].sizes() != inputs[i].sizes() ||
          !list[i].options().type_equal(inputs[i].options())) {
        refuse(fmt::format("invalid size or type of output tensor at index {}", i));
      }
    }
  }
  return run({OpType::ALLGATHER_COALESCED, "colla:all_gather"}, inputs, outputs, options.asyncOp,
             [outputs, inputs, timeout = timeoutOr(options.timeout)](Group& group) -> Status {
               for (std::size_t i = 0; i < inputs.size(); ++i) {
                 Tensors copies;
                 for (const Tensors& list : outputs) copies.push_back(list[i]);
                 COLLA_TRY(gatherAll(group, inputs[i], copies, timeout));
               }
               return {};
             });
}

WorkPtr ProcessGroup::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                      const ::c10d::AllgatherOptions& options) {
  const auto refuse = refusing("allgather_into_tensor_coalesced");
  ::c10d::assertNonEmptyInputTensorList(refuse, inputs.size());
  ::c10d::assertInputOutputTensorListsSameSize(refuse, outputs.size(), inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    checkGathered("allgather_into_tensor_coalesced", outputs[i], inputs[i], size_);
  }
  return run({OpType::COALESCED, "colla:all_gather"}, inputs, {outputs}, options.asyncOp,
             [outputs, inputs, timeout = timeoutOr(options.timeout)](Group& group) -> Status {
               for (std::size_t i = 0; i < inputs.size(); ++i) {
                 COLLA_TRY(gatherAll(group, inputs[i], {outputs[i]}, timeout));
               }
               return {};
             });
}

WorkPtr ProcessGroup::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                             const ::c10d::GatherOptions& options) {
  const auto refuse = refusing("gather");
  ::c10d::assertRootRank(refuse, options.rootRank, size_);
  ::c10d::assertSingleElementInput(refuse, inputs);
  checkPlain("gather", inputs);
  if (rank_ == options.rootRank) {
    ::c10d::assertGatherOutputTensorList(refuse, outputs, size_);
    ::c10d::assertTypeAndSizesMatch(refuse, outputs[0], inputs[0].options(), inputs[0].sizes());
  } else {
    ::c10d::assertEmptyOutputTensorList(refuse, outputs);
  }
  return run({OpType::GATHER, "colla:gather"}, inputs, outputs, options.asyncOp,
             [outputs, input = inputs[0], root = static_cast<int>(options.rootRank),
              timeout = timeoutOr(options.timeout)](Group& group) -> Status {
               const at::Tensor own = packed(input);
               if (outputs.empty()) return colla::gather(group, memoryOf(own), {}, root, {timeout});
               const at::Tensor all = flatLike(outputs[0]);
               COLLA_TRY(colla::gather(group, memoryOf(own), memoryOf(all), root, {timeout}));
               unflatten(all, outputs[0]);
               return {};
             });
}

WorkPtr ProcessGroup::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                              const ::c10d::ScatterOptions& options) {
  const auto refuse = refusing("scatter");
  ::c10d::assertRootRank(refuse, options.rootRank, size_);
  ::c10d::assertSingleElementOutput(refuse, outputs);
  checkPlain("scatter", outputs);
  if (rank_ == options.rootRank) {
    ::c10d::assertScatterInputTensorList(refuse, inputs, size_);
    ::c10d::assertTypeAndSizesMatch(refuse, inputs[0], outputs[0].options(), outputs[0].sizes());
  } else {
    ::c10d::assertEmptyInputTensorList(refuse, inputs);
  }
  const auto given = inputs.empty() ? std::nullopt : std::optional<Tensors>(inputs[0]);
  return run({OpType::SCATTER, "colla:scatter"}, given, {outputs}, options.asyncOp,
             [output = outputs[0], inputs, root = static_cast<int>(options.rootRank),
              timeout = timeoutOr(options.timeout)](Group& group) -> Status {
               const at::Tensor own = packed(output);
               const at::Tensor all = inputs.empty() ? at::Tensor() : flatten(inputs[0]);
               COLLA_TRY(colla::scatter(group, inputs.empty() ? Buffer() : memoryOf(all),
                                        memoryOf(own), root, {timeout}));
               unpack(own, output);
               return {};
             });
}

WorkPtr ProcessGroup::alltoall_base(at::Tensor& output, at::Tensor& input,
                                    std::vector<std::int64_t>& outputSplits,
                                    std::vector<std::int64_t>& inputSplits,
                                    const ::c10d::AllToAllOptions& options) {
  checkPlain("alltoall_base", {output});
  checkPlain("alltoall_base", {input});
  TORCH_CHECK(output.scalar_type() == input.scalar_type(),
              "colla: alltoall_base: output tensor must have the same type as input tensor");
  TORCH_CHECK(!outputSplits.empty() || !inputSplits.empty() || output.numel() == input.numel(),
              "colla: alltoall_base: tensors are not equal in size: ", output.numel(), " and ",
              input.numel(), " elements");
  ::c10d::checkSplitSizes(inputSplits, input, size_);
  ::c10d::checkSplitSizes(outputSplits, output, size_);
  return run({OpType::ALLTOALL_BASE, "colla:all_to_all"}, Tensors{input}, {{output}},
             options.asyncOp,
             [output, input, inputCounts = countsOf(inputSplits, input, size_),
              outputCounts = countsOf(outputSplits, output, size_),
              timeout = timeoutOr(options.timeout)](Group& group) -> Status {
               const at::Tensor all = packed(output);
               COLLA_TRY(exchange(group, packed(input), inputCounts, all, outputCounts, timeout));
               unpack(all, output);
               return {};
             });
}

WorkPtr ProcessGroup::alltoall(Tensors& outputs, Tensors& inputs,
                               const ::c10d::AllToAllOptions& options) {
  const auto refuse = refusing("alltoall");
  ::c10d::assertAllToAllTensorListSizes(refuse, outputs.size(), inputs.size(), size_);
  checkPlain("alltoall", inputs);
  checkPlain("alltoall", outputs);
  for (const Tensors* list : {&inputs, &outputs}) {
    for (std::size_t i = 0; i < list->size(); ++i) {
      ::c10d::assertTypeMatch(refuse, inputs[0].options(), *list, i);
    }
  }
  checkExchanged("alltoall", outputs, inputs, rank_);
  return run({OpType::ALLTOALL, "colla:all_to_all"}, inputs, {outputs}, options.asyncOp,
             [outputs, inputs, timeout = timeoutOr(options.timeout)](Group& group) -> Status {
               const at::Tensor all = flatLike(outputs);
               COLLA_TRY(exchange(group, flatten(inputs), countsOf(inputs), all, countsOf(outputs),
                                  timeout));
               unflatten(all, outputs);
               return {};
             });
}

WorkPtr ProcessGroup::barrier(const ::c10d::BarrierOptions& options) {
  return run({OpType::BARRIER, "colla:barrier"}, std::nullopt, {}, options.asyncOp,
             [timeout = timeoutOr(options.timeout)](Group& group) {
               return colla::barrier(group, {timeout});
             });
}

}  // namespace colla::c10d
