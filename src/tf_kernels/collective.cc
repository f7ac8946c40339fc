#include "tf_kernels/collective.h"

#include <utility>

namespace colla::tf_kernels {
namespace {

// What has no sums is moved as a type of the same size; -1: a type that is not moved.
std::int32_t typeOf(tf::DataType type) {
  switch (type) {
    case tf::DT_FLOAT:
      return COLLA_FLOAT32;
    case tf::DT_DOUBLE:
      return COLLA_FLOAT64;
    case tf::DT_BFLOAT16:
      return COLLA_BFLOAT16;
    case tf::DT_HALF:
      return COLLA_FLOAT16;
    case tf::DT_INT8:
      return COLLA_INT8;
    case tf::DT_INT16:
    case tf::DT_UINT16:
      return COLLA_INT16;
    case tf::DT_INT32:
    case tf::DT_UINT32:
      return COLLA_INT32;
    case tf::DT_INT64:
    case tf::DT_UINT64:
      return COLLA_INT64;
    case tf::DT_UINT8:
      return COLLA_UINT8;
    case tf::DT_BOOL:
      return COLLA_BOOL;
    default:
      return -1;
  }
}

}  // namespace

void* memoryOf(const tf::Tensor& tensor) { return const_cast<char*>(tensor.tensor_data().data()); }

Run::Run(tf::OpKernelContext* context, tf::AsyncOpKernel::DoneCallback done, int parts)
    : context_(context), done_(std::move(done)) {
  parts_.reserve(parts);  // Their addresses stay.
}

absl::Status Run::add(const tf::Tensor& input) {
  const std::int32_t type = typeOf(input.dtype());
  if (type < 0) {
    return absl::InvalidArgumentError("tensors of type " + tf::DataTypeString(input.dtype()) +
                                      " are not supported");
  }
  Part& part = parts_.emplace_back();
  part.run = this;
  part.number = static_cast<int>(parts_.size()) - 1;
  for (const auto dimension : input.shape().dim_sizes()) part.shape.push_back(dimension);
  given_.push_back({type,
                    {part.shape.data(), static_cast<std::int64_t>(part.shape.size())},
                    input.tensor_data().data(),
                    input.tensor_data().size(),
                    &part,
                    &Run::outputOf,
                    &Run::endPart});
  return absl::OkStatus();
}

void Run::start(std::unique_ptr<Run> run, CollaOperation operation) {
  operation.parts = run->given_.data();
  operation.count = static_cast<std::int64_t>(run->given_.size());
  Run* const started = run.release();  // It may have ended when submit() returns.
  const absl::Status status = submit(operation);
  if (!status.ok()) started->end(status);
}

void* Run::outputOf(void* caller, CollaNumbers numbers) {
  const Part& part = *static_cast<Part*>(caller);
  tf::TensorShape shape;
  for (std::int64_t i = 0; i < numbers.count; ++i) shape.AddDim(numbers.values[i]);
  return part.run->output(part.number, shape);
}

void Run::endPart(void* caller, std::int32_t code, const char* message, CollaNumbers numbers) {
  Run& run = *static_cast<Part*>(caller)->run;
  if (code != 0 && run.failure_.ok()) run.failure_ = statusOf(code, message);
  if (++run.ended_ < static_cast<int>(run.parts_.size())) return;
  run.end(run.failure_.ok() ? run.finish(numbers) : run.failure_);
}

void Run::end(const absl::Status& status) {
  if (!status.ok()) context_->SetStatus(status);
  const auto done = done_;
  delete this;
  done();  // After this the context is gone.
}

absl::Status AllocatingRun::addInputs() {
  for (int i = 0; i < context().num_inputs(); ++i) TF_RETURN_IF_ERROR(add(context().input(i)));
  return absl::OkStatus();
}

void* AllocatingRun::output(int part, const tf::TensorShape& shape) {
  tf::Tensor* made = nullptr;
  if (!context().allocate_output(part, shape, &made).ok()) return nullptr;
  return memoryOf(*made);
}

CollectiveKernel::CollectiveKernel(tf::OpKernelConstruction* construction)
    : tf::AsyncOpKernel(construction) {
  bool ordered = false;
  bool ignoreScope = false;
  OP_REQUIRES_OK(construction, construction->GetAttr("ordered", &ordered));
  OP_REQUIRES_OK(construction, construction->GetAttr("ignore_name_scope", &ignoreScope));
  OP_REQUIRES_OK(construction, construction->GetAttr("tensor_name", &tensorName_));
  OP_REQUIRES_OK(construction, construction->GetAttr("process_set_id", &set_));
  if (ordered || !tensorName_.empty()) return;
  // A node's name is unique in its graph, and the same on all ranks that built the same graph.
  tensorName_ = name();
  if (ignoreScope) tensorName_.erase(0, tensorName_.rfind('/') + 1);  // npos + 1 is 0.
}

CollaOperation CollectiveKernel::operation(std::int32_t kind) const {
  CollaOperation made = {};
  made.kind = kind;
  made.name = tensorName_.c_str();
  made.set = set_;
  made.prescale = 1;
  made.postscale = 1;
  return made;
}

Reduction::Reduction(tf::OpKernelConstruction* construction) {
  OP_REQUIRES_OK(construction, construction->GetAttr("op", &op));
  OP_REQUIRES_OK(construction, construction->GetAttr("prescale_factor", &prescale));
  OP_REQUIRES_OK(construction, construction->GetAttr("postscale_factor", &postscale));
}

void Reduction::applyTo(CollaOperation& operation) const {
  operation.op = op;
  operation.prescale = prescale;
  operation.postscale = postscale;
}

absl::Status sameShapes(tf::shape_inference::InferenceContext* context) {
  for (int i = 0; i < context->num_inputs(); ++i) context->set_output(i, context->input(i));
  return absl::OkStatus();
}

absl::Status otherRows(tf::shape_inference::InferenceContext* context) {
  for (int i = 0; i < context->num_outputs(); ++i) {
    if (!context->RankKnown(context->input(i)) || context->Rank(context->input(i)) == 0) {
      context->set_output(i, context->UnknownShape());
      continue;
    }
    tf::shape_inference::ShapeHandle shape;
    TF_RETURN_IF_ERROR(context->ReplaceDim(context->input(i), 0, context->UnknownDim(), &shape));
    context->set_output(i, shape);
  }
  return absl::OkStatus();
}

}  // namespace colla::tf_kernels
