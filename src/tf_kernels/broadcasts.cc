// Broadcast of tensors, and of variables in place.
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tf_kernels/collective.h"

namespace colla::tf_kernels {
namespace {

COLLA_TF_ATTRIBUTES(REGISTER_OP("CollaBroadcast"))
    .Attr("T: list(" COLLA_TF_TYPES ") >= 1")
    .Attr("root_rank: int")
    .Input("tensors: T")
    .Output("output: T")
    .SetShapeFn(sameShapes);

// The root's own tensor is its result.
class BroadcastRun : public Run {
 public:
  using Run::Run;

  absl::Status prepare(bool isRoot) {
    for (int i = 0; i < context().num_inputs(); ++i) {
      TF_RETURN_IF_ERROR(add(context().input(i)));
      tf::Tensor* made = nullptr;
      if (isRoot) {
        context().set_output(i, context().input(i));
        outputs_.push_back(memoryOf(context().input(i)));
      } else {
        TF_RETURN_IF_ERROR(
            context().forward_input_or_allocate_output({i}, i, context().input(i).shape(), &made));
        outputs_.push_back(memoryOf(*made));
      }
    }
    return absl::OkStatus();
  }

 protected:
  void* output(int part, const tf::TensorShape&) override { return outputs_[part]; }

 private:
  std::vector<void*> outputs_;
};

class BroadcastKernel : public CollectiveKernel {
 public:
  explicit BroadcastKernel(tf::OpKernelConstruction* construction)
      : CollectiveKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("root_rank", &root_));
  }

  void ComputeAsync(tf::OpKernelContext* context, DoneCallback done) override {
    const auto rank = number(COLLA_RANK, 0);
    OP_REQUIRES_OK_ASYNC(context, rank.status(), done);
    auto run = std::make_unique<BroadcastRun>(context, done, context->num_inputs());
    OP_REQUIRES_OK_ASYNC(context, run->prepare(*rank == root_), done);
    auto what = operation(COLLA_BROADCAST);
    what.root = root_;
    Run::start(std::move(run), what);
  }

 private:
  std::int32_t root_ = 0;
};
REGISTER_KERNEL_BUILDER(Name("CollaBroadcast").Device(tf::DEVICE_CPU), BroadcastKernel);

COLLA_TF_ATTRIBUTES(REGISTER_OP("CollaBroadcastVariables"))
    .Attr("N: int >= 1")
    .Attr("root_rank: int")
    .Input("variables: N * resource")
    .SetShapeFn([](tf::shape_inference::InferenceContext*) { return absl::OkStatus(); });

// What a rank receives goes into a variable's own memory if nobody else has a view of it; otherwise
// into new memory, which becomes the variable's at the end.
class VariablesRun : public Run {
 public:
  using Run::Run;

  absl::Status prepare(bool isRoot) {
    for (int i = 0; i < context().num_inputs(); ++i) {
      tf::core::RefCountPtr<tf::Var> variable;
      TF_RETURN_IF_ERROR(
          tf::LookupResource(&context(), tf::HandleFromInput(&context(), i), &variable));
      tf::Tensor received;
      {
        const tf::mutex_lock lock(*variable->mu());
        if (!variable->tensor()->IsInitialized()) {
          return absl::FailedPreconditionError(
              "a variable must have a value before it is broadcast");
        }
        const tf::Tensor& value = *variable->tensor();
        if (isRoot || value.RefCountIsOne()) {
          received = value;
        } else {
          TF_RETURN_IF_ERROR(context().allocate_temp(value.dtype(), value.shape(), &received));
        }
      }
      variables_.push_back(std::move(variable));
      received_.push_back(std::move(received));
      TF_RETURN_IF_ERROR(add(received_.back()));  // Of a broadcast the root's input alone is read.
    }
    return absl::OkStatus();
  }

 protected:
  void* output(int part, const tf::TensorShape&) override { return memoryOf(received_[part]); }

  absl::Status finish(CollaNumbers) override {
    for (std::size_t i = 0; i < variables_.size(); ++i) {
      const tf::mutex_lock lock(*variables_[i]->mu());
      *variables_[i]->tensor() = std::move(received_[i]);
    }
    return absl::OkStatus();
  }

 private:
  std::vector<tf::core::RefCountPtr<tf::Var>> variables_;
  std::vector<tf::Tensor> received_;
};

class BroadcastVariablesKernel : public CollectiveKernel {
 public:
  explicit BroadcastVariablesKernel(tf::OpKernelConstruction* construction)
      : CollectiveKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("root_rank", &root_));
  }

  void ComputeAsync(tf::OpKernelContext* context, DoneCallback done) override {
    const auto rank = number(COLLA_RANK, 0);
    OP_REQUIRES_OK_ASYNC(context, rank.status(), done);
    auto run = std::make_unique<VariablesRun>(context, done, context->num_inputs());
    OP_REQUIRES_OK_ASYNC(context, run->prepare(*rank == root_), done);
    auto what = operation(COLLA_BROADCAST);
    what.root = root_;
    Run::start(std::move(run), what);
  }

 private:
  std::int32_t root_ = 0;
};
REGISTER_KERNEL_BUILDER(Name("CollaBroadcastVariables").Device(tf::DEVICE_CPU),
                        BroadcastVariablesKernel);

}  // namespace
}  // namespace colla::tf_kernels
