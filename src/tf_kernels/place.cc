// A process's place in the job as tensors, read when a graph runs; and join.
#include "tf_kernels/collective.h"

namespace colla::tf_kernels {
namespace {

REGISTER_OP("CollaNumber")
    .Attr("what: {'rank', 'size', 'local_rank', 'local_size', 'included'}")
    .Attr("process_set_id: int = 0")
    .Output("number: int32")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* context) {
      context->set_output(0, context->Scalar());
      return absl::OkStatus();
    });

// What `included` gives where it can be neither 0 nor 1: Horovod's numbers.
constexpr std::int32_t kNotInitialized = -1;

class NumberKernel : public tf::OpKernel {
 public:
  explicit NumberKernel(tf::OpKernelConstruction* construction) : tf::OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("process_set_id", &set_));
    OP_REQUIRES_OK(construction, construction->GetAttr("what", &name_));
    what_ = name_ == "rank"         ? COLLA_RANK
            : name_ == "size"       ? COLLA_SIZE
            : name_ == "local_rank" ? COLLA_LOCAL_RANK
            : name_ == "local_size" ? COLLA_LOCAL_SIZE
                                    : COLLA_INCLUDED;
  }

  void Compute(tf::OpKernelContext* context) override {
    auto value = number(what_, set_);
    if (what_ == COLLA_INCLUDED && !value.ok()) value = kNotInitialized;
    OP_REQUIRES_OK(context, value.status());
    OP_REQUIRES(context, *value != COLLA_NO_SUCH_SET || what_ == COLLA_INCLUDED,
                absl::InvalidArgumentError("there is no process set " + std::to_string(set_)));
    tf::Tensor* made = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, tf::TensorShape({}), &made));
    made->scalar<std::int32_t>()() = *value;
  }

 private:
  std::string name_;
  std::int32_t what_ = 0;
  std::int32_t set_ = 0;
};
REGISTER_KERNEL_BUILDER(Name("CollaNumber").Device(tf::DEVICE_CPU), NumberKernel);

REGISTER_OP("CollaJoin")
    .Output("last_rank: int32")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* context) {
      context->set_output(0, context->Scalar());
      return absl::OkStatus();
    });

class JoinKernel : public tf::AsyncOpKernel {
 public:
  using tf::AsyncOpKernel::AsyncOpKernel;

  void ComputeAsync(tf::OpKernelContext* context, DoneCallback done) override {
    auto waiting = std::make_unique<Waiting>(Waiting{context, done});
    Waiting* const caller = waiting.release();
    const absl::Status status = join(caller, &JoinKernel::end);
    if (status.ok()) return;
    delete caller;
    OP_REQUIRES_OK_ASYNC(context, status, done);
  }

 private:
  struct Waiting {
    tf::OpKernelContext* context;
    DoneCallback done;
  };

  static void end(void* caller, std::int32_t code, const char* message, CollaNumbers numbers) {
    const std::unique_ptr<Waiting> waiting(static_cast<Waiting*>(caller));
    tf::OpKernelContext* const context = waiting->context;
    OP_REQUIRES_OK_ASYNC(context, statusOf(code, message), waiting->done);
    tf::Tensor* made = nullptr;
    OP_REQUIRES_OK_ASYNC(context, context->allocate_output(0, tf::TensorShape({}), &made),
                         waiting->done);
    made->scalar<std::int32_t>()() = static_cast<std::int32_t>(numbers.values[0]);
    waiting->done();
  }
};
REGISTER_KERNEL_BUILDER(Name("CollaJoin").Device(tf::DEVICE_CPU), JoinKernel);

}  // namespace
}  // namespace colla::tf_kernels
