// The collectives that reduce.
#include "c10d/arguments.h"
#include "c10d/process_group.h"
#include "c10d/tensors.h"
#include "colla/collectives.h"

namespace colla::c10d {
namespace {

using ::c10d::OpType;

// Colla reduces numbers, not bits. Everybody gathers everything and folds it.
Status reduceBits(Group& group, const at::Tensor& whole, const ::c10d::ReduceOp& op,
                  std::chrono::milliseconds timeout) {
  const at::Tensor all = at::empty({group.size(), whole.numel()}, whole.options());
  COLLA_TRY(colla::allgather(group, memoryOf(whole), memoryOf(all), {timeout}));
  at::Tensor result = all[0];
  for (int rank = 1; rank < group.size(); ++rank) foldInto(result, all[rank], op);
  whole.view({-1}).copy_(result);
  return {};
}

Status reduceAll(Group& group, const at::Tensor& whole, const ::c10d::ReduceOp& op,
                 std::chrono::milliseconds timeout) {
  if (isBitwise(op)) return reduceBits(group, whole, op, timeout);
  COLLA_TRY(colla::allreduce(group, numbersOf(whole, op, "allreduce"),
                             {.op = reduceOp(op, whole), .timeout = timeout}));
  finishAverage(whole, op, group.size());
  return {};
}

// The parts of `input` that belong to this rank, reduced over all ranks, go to `output`.
Status scatterReduced(Group& group, const at::Tensor& output, const at::Tensor& input,
                      const ::c10d::ReduceOp& op, std::chrono::milliseconds timeout) {
  if (isBitwise(op)) {
    const at::Tensor whole = input.clone(at::MemoryFormat::Contiguous);
    COLLA_TRY(reduceBits(group, whole, op, timeout));
    output.copy_(
        whole.view({-1}).narrow(0, group.rank() * output.numel(), output.numel()).view_as(output));
    return {};
  }
  const at::Tensor own = packed(output);
  COLLA_TRY(colla::reduceScatter(group, numbersOf(packed(input), op, "reduce_scatter"),
                                 numbersOf(own, op, "reduce_scatter"),
                                 {.op = reduceOp(op, own), .timeout = timeout}));
  finishAverage(own, op, group.size());
  unpack(own, output);
  return {};
}

void checkScattered(const char* operation, const at::Tensor& output, const at::Tensor& input,
                    const ::c10d::ReduceOp& op, int size) {
  checkPlain(operation, {output});
  checkPlain(operation, {input});
  TORCH_CHECK(output.scalar_type() == input.scalar_type(), "colla: ", operation,
              ": input tensor must be the same type as the output tensor.");
  TORCH_CHECK(input.numel() == output.numel() * size, "colla: ", operation,
              ": input tensor must be the same size as output size times world size (",
              input.numel(), " elements, but ", size, " x ", output.numel(), ")");
  numbersOf(output, op, operation);
}

}  // namespace

WorkPtr ProcessGroup::allreduce(Tensors& tensors, const ::c10d::AllreduceOptions& options) {
  const auto refuse = refusing("allreduce");
  ::c10d::assertNonEmpty(refuse, tensors);
  ::c10d::assertLayoutMatch(refuse, tensors);
  ::c10d::assertTypeAndSizesMatch(refuse, tensors);
  ::c10d::assertCPU(refuse, tensors);
  if (tensors[0].is_sparse()) return allreduce_sparse(tensors, options);
  ::c10d::assertDense(refuse, tensors);
  numbersOf(tensors[0], options.reduceOp, "allreduce");
  return run({OpType::ALLREDUCE, "colla:all_reduce"}, tensors, {tensors}, options.asyncOp,
             [tensors, op = options.reduceOp,
              timeout = timeoutOr(options.timeout)](Group& group) -> Status {
               at::Tensor whole = packed(tensors[0]);
               for (std::size_t i = 1; i < tensors.size(); ++i) foldInto(whole, tensors[i], op);
               COLLA_TRY(reduceAll(group, whole, op, timeout));
               for (const at::Tensor& tensor : tensors) unpack(whole, tensor);
               return {};
             });
}

WorkPtr ProcessGroup::allreduce_coalesced(Tensors& tensors,
                                          const ::c10d::AllreduceCoalescedOptions& options) {
  const auto refuse = refusing("allreduce_coalesced");
  ::c10d::assertNonEmpty(refuse, tensors);
  ::c10d::assertLayoutMatch(refuse, tensors);
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.options().type_equal(tensors[0].options())) {
      refuse("tensors must all have the same type");
    }
  }
  ::c10d::assertCPU(refuse, tensors);
  if (tensors[0].layout() != at::kStrided) refuse("unsupported layout");
  numbersOf(tensors[0], options.reduceOp, "allreduce_coalesced");
  return run({OpType::ALLREDUCE_COALESCED, "colla:all_reduce"}, tensors, {tensors}, options.asyncOp,
             [tensors, op = options.reduceOp,
              timeout = timeoutOr(options.timeout)](Group& group) -> Status {
               const at::Tensor whole = flatten(tensors);
               COLLA_TRY(reduceAll(group, whole, op, timeout));
               unflatten(whole, tensors);
               return {};
             });
}

WorkPtr ProcessGroup::reduce(Tensors& tensors, const ::c10d::ReduceOptions& options) {
  const auto refuse = refusing("reduce");
  ::c10d::assertRootRank(refuse, options.rootRank, size_);
  ::c10d::assertRootTensor(refuse, options.rootTensor, static_cast<std::int64_t>(tensors.size()));
  ::c10d::assertSingleElement(refuse, tensors);
  checkPlain("reduce", tensors);
  numbersOf(tensors[0], options.reduceOp, "reduce");
  return run({OpType::REDUCE, "colla:reduce"}, tensors, {tensors}, options.asyncOp,
             [tensor = tensors[0], op = options.reduceOp, root = static_cast<int>(options.rootRank),
              timeout = timeoutOr(options.timeout)](Group& group) -> Status {
               const bool mine = group.rank() == root;
               if (isBitwise(op)) {
                 const at::Tensor whole = tensor.clone(at::MemoryFormat::Contiguous);
                 COLLA_TRY(reduceBits(group, whole, op, timeout));
                 if (mine) tensor.copy_(whole);
                 return {};
               }
               const at::Tensor whole = packed(tensor);
               const Buffer numbers = numbersOf(whole, op, "reduce");
               COLLA_TRY(colla::reduce(group, numbers, mine ? numbers : Buffer(), root,
                                       {.op = reduceOp(op, whole), .timeout = timeout}));
               if (mine) {
                 finishAverage(whole, op, group.size());
                 unpack(whole, tensor);
               }
               return {};
             });
}

WorkPtr ProcessGroup::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                     const ::c10d::ReduceScatterOptions& options) {
  const auto refuse = refusing("reduce_scatter");
  ::c10d::assertSingleElementOutput(refuse, outputs);
  ::c10d::assertScatterInputTensorList(refuse, inputs, size_);
  checkPlain("reduce_scatter", outputs);
  bool even = true;
  for (std::size_t i = 0; i < inputs[0].size(); ++i) {
    ::c10d::assertTypeMatch(refuse, outputs[0].options(), inputs[0], i);
    even &= inputs[0][i].numel() == inputs[0][0].numel();
  }
  TORCH_CHECK(inputs[0][static_cast<std::size_t>(rank_)].numel() == outputs[0].numel(),
              "colla: reduce_scatter: the output has ", outputs[0].numel(),
              " elements, but the input of its rank ",
              inputs[0][static_cast<std::size_t>(rank_)].numel());
  numbersOf(outputs[0], options.reduceOp, "reduce_scatter");
  return run({OpType::REDUCE_SCATTER, "colla:reduce_scatter"}, inputs[0], {outputs},
             options.asyncOp,
             [output = outputs[0], parts = inputs[0], even, op = options.reduceOp,
              timeout = timeoutOr(options.timeout)](Group& group) -> Status {
               if (even) return scatterReduced(group, output, flatten(parts), op, timeout);
               for (int root = 0; root < group.size(); ++root) {
                 at::Tensor whole =
                     parts[static_cast<std::size_t>(root)].clone(at::MemoryFormat::Contiguous);
                 COLLA_TRY(reduceAll(group, whole, op, timeout));
                 if (root == group.rank()) output.copy_(whole.view_as(output));
               }
               return {};
             });
}

WorkPtr ProcessGroup::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                           const ::c10d::ReduceScatterOptions& options) {
  checkScattered("_reduce_scatter_base", output, input, options.reduceOp, size_);
  return run({OpType::_REDUCE_SCATTER_BASE, "colla:_reduce_scatter_base"}, Tensors{input},
             {{output}}, options.asyncOp,
             [output, input, op = options.reduceOp, timeout = timeoutOr(options.timeout)](
                 Group& group) { return scatterReduced(group, output, input, op, timeout); });
}

WorkPtr ProcessGroup::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                      const ::c10d::ReduceScatterOptions& options) {
  const auto refuse = refusing("reduce_scatter_tensor_coalesced");
  ::c10d::assertNonEmptyInputTensorList(refuse, inputs.size());
  ::c10d::assertInputOutputTensorListsSameSize(refuse, outputs.size(), inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    checkScattered("reduce_scatter_tensor_coalesced", outputs[i], inputs[i], options.reduceOp,
                   size_);
  }
  return run({OpType::REDUCE_SCATTER_TENSOR_COALESCED, "colla:reduce_scatter"}, inputs, {outputs},
             options.asyncOp,
             [outputs, inputs, op = options.reduceOp,
              timeout = timeoutOr(options.timeout)](Group& group) -> Status {
               for (std::size_t i = 0; i < inputs.size(); ++i) {
                 COLLA_TRY(scatterReduced(group, outputs[i], inputs[i], op, timeout));
               }
               return {};
             });
}

}  // namespace colla::c10d
