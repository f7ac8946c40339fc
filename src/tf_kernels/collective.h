// What the kernels of all collectives have in common: a name, a process set, and a run that ends
// when the exchange says so. ComputeAsync() only starts an operation, so no thread of TensorFlow
// waits for other ranks.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tf_kernels/session.h"

namespace colla::tf_kernels {

namespace tf = ::tensorflow;

// The types that Colla moves; those among them that have sums.
#define COLLA_TF_TYPES                                                                      \
  "{uint8, int8, uint16, int16, uint32, int32, uint64, int64, bfloat16, float16, float32, " \
  "float64, bool}"
#define COLLA_TF_SUMS \
  "{uint8, int8, int16, int32, int64, bfloat16, float16, float32, float64, bool}"
// Attributes of every collective. An operation has the name `tensor_name`, or that of its node, of
// which the part after the last slash counts if `ignore_name_scope`. If `ordered`, it has no name.
#define COLLA_TF_ATTRIBUTES(op)                \
  op.Attr("tensor_name: string = ''")          \
      .Attr("ignore_name_scope: bool = false") \
      .Attr("ordered: bool = false")           \
      .Attr("process_set_id: int = 0")         \
      .SetIsStateful()

// One run of a kernel. It lives until all of its parts have ended; then the kernel is done.
class Run {
 public:
  Run(tf::OpKernelContext* context, tf::AsyncOpKernel::DoneCallback done, int parts);
  virtual ~Run() = default;

  tf::OpKernelContext& context() { return *context_; }
  // Adds a part with this tensor. Its shape and memory are the context's or the run's.
  absl::Status add(const tf::Tensor& input);
  // Starts the operation, whose parts are those that were added. It takes the run over.
  static void start(std::unique_ptr<Run> run, CollaOperation operation);

 protected:
  // On the exchange's thread: the memory for the result of `part`; null if there is none.
  virtual void* output(int part, const tf::TensorShape& shape) = 0;
  // On the exchange's thread, once all parts are there.
  virtual absl::Status finish(CollaNumbers numbers) { return absl::OkStatus(); }

 private:
  struct Part {
    Run* run;
    int number;
    std::vector<std::int64_t> shape;
  };
  static void* outputOf(void* caller, CollaNumbers shape);
  static void endPart(void* caller, std::int32_t code, const char* message, CollaNumbers numbers);
  void end(const absl::Status& status);

  tf::OpKernelContext* const context_;
  const tf::AsyncOpKernel::DoneCallback done_;
  std::vector<Part> parts_;
  std::vector<CollaPart> given_;
  int ended_ = 0;         // The exchange's thread alone counts.
  absl::Status failure_;  // The first one.
};

// Makes the results' tensors when their shapes are known, which is when all ranks have come.
class AllocatingRun : public Run {
 public:
  using Run::Run;

  // Each input of the kernel is a part.
  absl::Status addInputs();

 protected:
  void* output(int part, const tf::TensorShape& shape) override;
};

class CollectiveKernel : public tf::AsyncOpKernel {
 public:
  explicit CollectiveKernel(tf::OpKernelConstruction* construction);

 protected:
  // An operation of this kernel's name and set.
  CollaOperation operation(std::int32_t kind) const;

 private:
  std::string tensorName_;
  std::int32_t set_ = 0;
};

// The memory of a tensor.
void* memoryOf(const tf::Tensor& tensor);

// Reads `op`, `prescale_factor` and `postscale_factor`.
struct Reduction {
  std::int32_t op = 0;
  float prescale = 1;
  float postscale = 1;

  explicit Reduction(tf::OpKernelConstruction* construction);
  void applyTo(CollaOperation& operation) const;
};
#define COLLA_TF_REDUCTION(op) \
  op.Attr("op: int").Attr("prescale_factor: float = 1.0").Attr("postscale_factor: float = 1.0")

// The shapes of outputs: those of inputs, all or from the second dimension on.
absl::Status sameShapes(tf::shape_inference::InferenceContext* context);
absl::Status otherRows(tf::shape_inference::InferenceContext* context);

}  // namespace colla::tf_kernels
