// Allgather and alltoall: results whose number of rows nobody knows before all ranks have come.
#include "tf_kernels/collective.h"

namespace colla::tf_kernels {
namespace {

COLLA_TF_ATTRIBUTES(REGISTER_OP("CollaAllgather"))
    .Attr("T: list(" COLLA_TF_TYPES ") >= 1")
    .Input("tensors: T")
    .Output("gathered: T")
    .SetShapeFn(otherRows);

class AllgatherKernel : public CollectiveKernel {
 public:
  using CollectiveKernel::CollectiveKernel;

  void ComputeAsync(tf::OpKernelContext* context, DoneCallback done) override {
    auto run = std::make_unique<AllocatingRun>(context, done, context->num_inputs());
    OP_REQUIRES_OK_ASYNC(context, run->addInputs(), done);
    Run::start(std::move(run), operation(COLLA_ALLGATHER));
  }
};
REGISTER_KERNEL_BUILDER(Name("CollaAllgather").Device(tf::DEVICE_CPU), AllgatherKernel);

COLLA_TF_ATTRIBUTES(REGISTER_OP("CollaAlltoall"))
    .Attr("T: " COLLA_TF_TYPES)
    .Attr("S: {int32, int64}")
    .Input("tensor: T")
    .Input("splits: S")
    .Output("output: T")
    .Output("received_splits: S")
    .SetShapeFn([](tf::shape_inference::InferenceContext* context) {
      context->set_output(1, context->UnknownShapeOfRank(1));
      tf::shape_inference::ShapeHandle shape = context->UnknownShape();
      if (context->RankKnown(context->input(0)) && context->Rank(context->input(0)) > 0) {
        TF_RETURN_IF_ERROR(
            context->ReplaceDim(context->input(0), 0, context->UnknownDim(), &shape));
      }
      context->set_output(0, shape);
      return absl::OkStatus();
    });

template <typename T>
std::vector<std::int64_t> rowsOf(const tf::Tensor& splits) {
  const auto flat = splits.flat<T>();
  return {flat.data(), flat.data() + flat.size()};
}

class AlltoallRun : public AllocatingRun {
 public:
  using AllocatingRun::AllocatingRun;

 protected:
  absl::Status finish(CollaNumbers rows) override {
    tf::Tensor* received = nullptr;
    TF_RETURN_IF_ERROR(context().allocate_output(1, tf::TensorShape({rows.count}), &received));
    for (std::int64_t i = 0; i < rows.count; ++i) {
      if (received->dtype() == tf::DT_INT32) {
        received->flat<std::int32_t>()(i) = static_cast<std::int32_t>(rows.values[i]);
      } else {
        received->flat<std::int64_t>()(i) = rows.values[i];
      }
    }
    return absl::OkStatus();
  }
};

class AlltoallKernel : public CollectiveKernel {
 public:
  using CollectiveKernel::CollectiveKernel;

  void ComputeAsync(tf::OpKernelContext* context, DoneCallback done) override {
    const tf::Tensor& splits = context->input(1);
    OP_REQUIRES_ASYNC(
        context, splits.dims() == 1,
        absl::InvalidArgumentError("splits takes a list with a number of rows for each rank"),
        done);
    const auto rows = splits.dtype() == tf::DT_INT32 ? rowsOf<std::int32_t>(splits)
                                                     : rowsOf<std::int64_t>(splits);
    auto run = std::make_unique<AlltoallRun>(context, done, 1);
    OP_REQUIRES_OK_ASYNC(context, run->add(context->input(0)), done);
    auto what = operation(COLLA_ALLTOALL);
    what.splits = {rows.data(), static_cast<std::int64_t>(rows.size())};
    Run::start(std::move(run), what);
  }
};
REGISTER_KERNEL_BUILDER(Name("CollaAlltoall").Device(tf::DEVICE_CPU), AlltoallKernel);

}  // namespace
}  // namespace colla::tf_kernels
