// Predictions of a task's own data set, without a command line.
#include "models/predictions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "models/predicts.h"

namespace colla::models {
namespace {

// Seven samples, of which read() gives one too few.
class Short : public Dataset {
 public:
  std::int64_t size() const override { return 7; }
  std::vector<Field> fields() const override { return {{"point", DataType::kFloat32, {2}}}; }
  Result<Batch> read(std::span<const std::int64_t> indices, Random& /*random*/) const override {
    return Batch{
        *Array::allocate(DataType::kFloat32, {static_cast<std::int64_t>(indices.size()) - 1, 2})};
  }
  std::string describe() const override { return "short"; }
};

class Rows : public Model, public Predicts {
 public:
  torch::nn::Module& module() override { return *net_; }
  Output compute(const std::vector<torch::Tensor>& batch) override { return {batch[0].sum(), {}}; }
  std::vector<Column> predict(const std::vector<torch::Tensor>& batch) override {
    return {{"sum", batch[0].sum(1)}};
  }

 private:
  const std::shared_ptr<torch::nn::Module> net_ = std::make_shared<torch::nn::Module>();
};

// Numbers of other samples would come out.
TEST(PredictionsTest, ABatchIsWhatFieldsSay) {
  Task task;
  task.name = "rows";
  task.model = [] { return std::make_unique<Rows>(); };
  task.data = [](Part) { return std::make_shared<Short>(); };
  PredictionOptions options;
  options.batch = 4;
  const Status status = writePredictions(task, options, stdout);
  EXPECT_EQ(status.message(),
            "data set \"short\": read() of 4 samples (0, 1, 2, …) gave field 0 (point) as float32 "
            "3x2, expected float32 4x2");
}

}  // namespace
}  // namespace colla::models
