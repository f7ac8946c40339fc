// Allreduce of sparse (COO) tensors: everybody gathers the indices and values of all, and sums
// them in the order of ranks.
#include <algorithm>
#include <array>

#include "c10d/arguments.h"
#include "c10d/process_group.h"
#include "c10d/tensors.h"
#include "colla/collectives.h"

namespace colla::c10d {
namespace {

// What the ranks must know of each other before they send values.
struct Shape {
  static constexpr std::size_t kMostDims = 12;
  std::int64_t entries = 0;
  std::int64_t sparseDims = 0;
  std::int64_t dims = 0;
  std::array<std::int64_t, kMostDims> sizes{};

  explicit Shape(const at::Tensor& tensor)
      : entries(tensor._nnz()), sparseDims(tensor.sparse_dim()), dims(tensor.dim()) {
    std::ranges::copy(tensor.sizes(), sizes.begin());
  }
  bool fits(const Shape& other) const {
    return sparseDims == other.sparseDims && dims == other.dims && sizes == other.sizes;
  }
};
constexpr std::size_t kShapeNumbers = sizeof(Shape) / sizeof(std::int64_t);

// All ranks' rows, one rank's behind the other's. `rows` of this rank has shape.entries rows.
Status gatherRows(Group& group, const std::vector<Shape>& shapes, const at::Tensor& rows,
                  at::Tensor& all, std::chrono::milliseconds timeout) {
  const at::Tensor own = packed(rows);
  const Buffer memory = memoryOf(own);
  const std::int64_t entries = shapes[static_cast<std::size_t>(group.rank())].entries;
  std::vector<std::int64_t> sizes = own.sizes().vec();
  std::int64_t width = static_cast<std::int64_t>(own.element_size() / sizeOf(memory.type()));
  for (std::size_t i = 1; i < sizes.size(); ++i) width *= sizes[i];
  COLLA_TRY(sizes[0] == entries ? Status() : Status(StatusCode::kInternal, "rows are missing"));

  std::vector<std::size_t> counts;
  sizes[0] = 0;
  for (const Shape& shape : shapes) {
    counts.push_back(static_cast<std::size_t>(shape.entries * width));
    sizes[0] += shape.entries;
  }
  all = at::empty(sizes, own.options());
  return allgatherv(group, memory, memoryOf(all), counts, {timeout});
}

Status sumSparse(Group& group, const Tensors& tensors, std::chrono::milliseconds timeout) {
  at::Tensor sum = tensors[0];
  for (std::size_t i = 1; i < tensors.size(); ++i) sum = sum + tensors[i];
  sum = sum.coalesce();

  const Shape own(sum);
  std::vector<Shape> shapes(static_cast<std::size_t>(group.size()), own);
  COLLA_TRY(colla::allgather(group, {&own, kShapeNumbers, DataType::kInt64},
                             {shapes.data(), shapes.size() * kShapeNumbers, DataType::kInt64},
                             {timeout}));
  for (const Shape& shape : shapes) TORCH_CHECK(shape.fits(own), "Sparse dimensions do not match");

  at::Tensor indices;  // A row for each entry, as the values have it.
  at::Tensor values;
  COLLA_TRY(gatherRows(group, shapes, sum._indices().t(), indices, timeout));
  COLLA_TRY(gatherRows(group, shapes, sum._values(), values, timeout));
  const at::Tensor result =
      at::_sparse_coo_tensor_unsafe(indices.t(), values, sum.sizes(), sum.options()).coalesce();
  for (const at::Tensor& tensor : tensors) tensor.copy_(result);
  return {};
}

}  // namespace

WorkPtr ProcessGroup::allreduce_sparse(Tensors& tensors, const ::c10d::AllreduceOptions& options) {
  const auto refuse = refusing("allreduce");
  ::c10d::assertNonEmpty(refuse, tensors);
  ::c10d::assertTypeAndSizesMatch(refuse, tensors);
  ::c10d::assertCPU(refuse, tensors);
  if (!tensors[0].is_sparse()) refuse("unsupported layout");
  if (options.reduceOp.op_ != ::c10d::ReduceOp::SUM) {
    refuse(
        "unsupported reduction operation (allreduce of sparse tensors only works with "
        "ReduceOp.SUM)");
  }
  if (tensors[0].dim() > static_cast<std::int64_t>(Shape::kMostDims)) {
    refuse(c10::str("a sparse tensor may have ", Shape::kMostDims, " dimensions, not ",
                    tensors[0].dim()));
  }
  return run({::c10d::OpType::_ALLREDUCE_SPARSE, "colla:sparse_all_reduce"}, tensors, {tensors},
             options.asyncOp, [tensors, timeout = timeoutOr(options.timeout)](Group& group) {
               return sumSparse(group, tensors, timeout);
             });
}

}  // namespace colla::c10d
