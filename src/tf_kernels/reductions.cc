// Allreduce and reducescatter.
#include "tf_kernels/collective.h"

namespace colla::tf_kernels {
namespace {

COLLA_TF_REDUCTION(COLLA_TF_ATTRIBUTES(REGISTER_OP("CollaAllreduce")))
    .Attr("T: list(" COLLA_TF_SUMS ") >= 1")
    .Input("tensors: T")
    .Output("reduced: T")
    .SetShapeFn(sameShapes);

// A tensor that nobody else needs is reduced where it lies.
class AllreduceRun : public Run {
 public:
  using Run::Run;

  // Makes all results before the operation starts: their shapes are known.
  absl::Status prepare() {
    for (int i = 0; i < context().num_inputs(); ++i) {
      tf::Tensor* made = nullptr;
      TF_RETURN_IF_ERROR(
          context().forward_input_or_allocate_output({i}, i, context().input(i).shape(), &made));
      TF_RETURN_IF_ERROR(add(context().input(i)));
      outputs_.push_back(memoryOf(*made));
    }
    return absl::OkStatus();
  }

 protected:
  void* output(int part, const tf::TensorShape&) override { return outputs_[part]; }

 private:
  std::vector<void*> outputs_;
};

class AllreduceKernel : public CollectiveKernel {
 public:
  explicit AllreduceKernel(tf::OpKernelConstruction* construction)
      : CollectiveKernel(construction), reduction_(construction) {}

  void ComputeAsync(tf::OpKernelContext* context, DoneCallback done) override {
    auto run = std::make_unique<AllreduceRun>(context, done, context->num_inputs());
    OP_REQUIRES_OK_ASYNC(context, run->prepare(), done);
    auto what = operation(COLLA_ALLREDUCE);
    reduction_.applyTo(what);
    Run::start(std::move(run), what);
  }

 private:
  const Reduction reduction_;
};
REGISTER_KERNEL_BUILDER(Name("CollaAllreduce").Device(tf::DEVICE_CPU), AllreduceKernel);

COLLA_TF_REDUCTION(COLLA_TF_ATTRIBUTES(REGISTER_OP("CollaReducescatter")))
    .Attr("T: list(" COLLA_TF_SUMS ") >= 1")
    .Input("tensors: T")
    .Output("reduced: T")
    .SetShapeFn(otherRows);

class ReducescatterKernel : public CollectiveKernel {
 public:
  explicit ReducescatterKernel(tf::OpKernelConstruction* construction)
      : CollectiveKernel(construction), reduction_(construction) {}

  void ComputeAsync(tf::OpKernelContext* context, DoneCallback done) override {
    auto run = std::make_unique<AllocatingRun>(context, done, context->num_inputs());
    OP_REQUIRES_OK_ASYNC(context, run->addInputs(), done);
    auto what = operation(COLLA_REDUCESCATTER);
    reduction_.applyTo(what);
    Run::start(std::move(run), what);
  }

 private:
  const Reduction reduction_;
};
REGISTER_KERNEL_BUILDER(Name("CollaReducescatter").Device(tf::DEVICE_CPU), ReducescatterKernel);

}  // namespace
}  // namespace colla::tf_kernels
