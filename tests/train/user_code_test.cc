// What a program's own model, data and hooks do wrong, and how a run says so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>

#include "colla/trainer.h"
#include "support/scratch.h"
#include "train/model_check.h"

namespace colla {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

struct PointNet : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) { return out(x); }
  torch::nn::Linear out = register_module("out", torch::nn::Linear(2, 2));
};

// Ten points of two classes, of which `spoil` may make something else.
class Points : public Dataset {
 public:
  using Spoil = std::function<void(Batch&)>;
  explicit Points(
      Spoil spoil = [](Batch&) {}, bool labelled = true)
      : spoil_(std::move(spoil)), labelled_(labelled) {}

  std::int64_t size() const override { return 10; }
  std::vector<Field> fields() const override {
    std::vector<Field> fields = {{"point", DataType::kFloat32, {2}}};
    if (labelled_) fields.push_back({"class", DataType::kInt64, {}});
    return fields;
  }
  Result<Batch> read(std::span<const std::int64_t> indices, Random&) const override {
    const auto count = static_cast<std::int64_t>(indices.size());
    Batch batch = {*Array::allocate(DataType::kFloat32, {count, 2})};
    if (labelled_) batch.push_back(*Array::allocate(DataType::kInt64, {count}));
    for (const Array& array : batch) std::ranges::fill(array.bytes(), std::byte{0});
    spoil_(batch);
    return batch;
  }
  bool inMemory() const override { return true; }  // No threads, which would count at once.
  std::string describe() const override { return "points"; }

 private:
  const Spoil spoil_;
  const bool labelled_;
};

Task taskOn(const std::shared_ptr<const Dataset>& data) {
  Task task;
  task.name = "points";
  task.batch = 5;
  task.model = [] { return classifier(std::make_shared<PointNet>()); };
  task.data = [data](Part) { return Result(data); };
  return task;
}

// How four steps of it end.
std::string errorOf(Task task, int workers = 1, bool evaluate = false) {
  TrainOptions options;
  options.steps = 4;
  options.evaluate = evaluate;
  options.quiet = true;
  options.workers = workers;
  if (workers > 1) options.strategy = Strategy::kMirrored;
  return std::string(Trainer(std::move(task)).run(options).status().message());
}

Array rows(std::int64_t count) { return *Array::allocate(DataType::kInt64, {count}); }

TEST(UserCodeTest, WholeTasksTrain) {
  EXPECT_EQ(errorOf(taskOn(std::make_shared<Points>())), "ok");
}

// A read() that gives a row too few, or lacks a field, would train on something else.
TEST(UserCodeTest, ABatchIsWhatFieldsSay) {
  const auto spoiled = [](Points::Spoil spoil) {
    return errorOf(taskOn(std::make_shared<Points>(std::move(spoil))));
  };
  EXPECT_THAT(spoiled([](Batch& batch) { batch[1] = rows(batch[1].rows() - 1); }),
              MatchesRegex("data of step 1, slice 0: data set \"points\": read\\(\\) of 5 samples "
                           "\\([0-9], [0-9], [0-9], …\\) gave field 1 \\(class\\) as int64 4, "
                           "expected int64 5"));
  EXPECT_THAT(spoiled([](Batch& batch) { batch.pop_back(); }),
              HasSubstr("gave 1 field, but fields() has 2 (point, class): field 1 (class) is "
                        "missing"));
}

TEST(UserCodeTest, AModelThatWantsAFieldThatThereIsNotSaysSo) {
  EXPECT_EQ(errorOf(taskOn(std::make_shared<Points>([](Batch&) {}, /*labelled=*/false))),
            "step 1, slice 0: the model: it takes an input and a target, but the data set has 1 "
            "field: give it two, or derive from colla::Model");
  struct Third : Model {
    torch::nn::Module& module() override { return *net; }
    Output compute(const std::vector<torch::Tensor>& batch) override {
      return {net->forward(batch.at(2)).sum(), {}};
    }
    const std::shared_ptr<PointNet> net = std::make_shared<PointNet>();
  };
  Task task = taskOn(std::make_shared<Points>());
  task.model = [] { return std::make_unique<Third>(); };
  EXPECT_THAT(errorOf(task), HasSubstr("step 1, slice 0: the model: compute() asked for something "
                                       "out of range; its batch has 2 fields"));
}

TEST(UserCodeTest, DataThatIsNotThereSaysSo) {
  Task task = taskOn(nullptr);
  EXPECT_THAT(errorOf(task), HasSubstr("the task's data gave a null pointer for the train part"));
  task.data = [](Part) -> Result<std::shared_ptr<const Dataset>> {
    throw std::runtime_error("no such bucket");
  };
  EXPECT_EQ(errorOf(task), "the task's data, train part: no such bucket");
  task.data = nullptr;
  EXPECT_THAT(errorOf(task), HasSubstr("the task has no data"));
}

TEST(UserCodeTest, DataWithoutSamplesSaysSo) {
  struct Empty : Points {
    std::int64_t size() const override { return 0; }
  };
  EXPECT_EQ(errorOf(taskOn(std::make_shared<Empty>())),
            "data set \"points\": the train part has no samples: its size() is 0");
  Task task = taskOn(std::make_shared<Points>());
  task.data = [](Part part) -> Result<std::shared_ptr<const Dataset>> {
    if (part == Part::kTest) return std::make_shared<Empty>();
    return std::make_shared<Points>();
  };
  EXPECT_EQ(errorOf(task, 1, /*evaluate=*/true),
            "data set \"points\": the test part has no samples: its size() is 0");
}

TEST(UserCodeTest, AModelThatIsNotThereSaysSo) {
  Task task = taskOn(std::make_shared<Points>());
  task.model = [] { return nullptr; };
  EXPECT_THAT(errorOf(task), HasSubstr("the task's model gave a null pointer"));
  EXPECT_THAT(errorOf(task, 2), HasSubstr("the task's model gave a null pointer"));
  task.model = []() -> std::unique_ptr<Model> { throw std::runtime_error("no weights.bin"); };
  EXPECT_EQ(errorOf(task), "the task's model: no weights.bin");
  task.model = nullptr;
  EXPECT_THAT(errorOf(task), HasSubstr("the task has no model"));
}

// Contract: errors of the model, the loss and hooks name the step, with one worker and with two.
TEST(UserCodeTest, ErrorsNameTheStep) {
  for (const int workers : {1, 2}) {
    Task task = taskOn(std::make_shared<Points>());
    task.model = [] {
      return modelOf(std::make_shared<PointNet>(),
                     [call = 0](const torch::Tensor& output, const torch::Tensor&) mutable {
                       if (++call == 3) throw std::runtime_error("I am tired");
                       return output.sum();
                     });
    };
    EXPECT_THAT(errorOf(task, workers), MatchesRegex("step 3, slice [01]: the model: I am tired"));
  }
  Task task = taskOn(std::make_shared<Points>());
  task.model = [] {  // libtorch's own words, without the functions that it went through.
    return modelOf(std::make_shared<PointNet>(),
                   [](const torch::Tensor& output, const torch::Tensor&) {
                     return output.mm(torch::ones({7, 7})).sum();
                   });
  };
  EXPECT_THAT(errorOf(task),
              MatchesRegex("step 1, slice 0: the model: libtorch: mat1 and mat2 [^\n]*"));
  task.model = [] {
    return modelOf(std::make_shared<PointNet>(),
                   [](const torch::Tensor&, const torch::Tensor&) { return torch::zeros({}); });
  };
  EXPECT_THAT(errorOf(task), HasSubstr("step 1, slice 0: the model: libtorch: element 0"));
}

TEST(UserCodeTest, AnOptimizerThatIsNotThereSaysSo) {
  const auto error = [](Optimizer optimizer) {
    Task task = taskOn(std::make_shared<Points>());
    task.optimizer = std::move(optimizer);
    return errorOf(std::move(task));
  };
  EXPECT_THAT(error(OwnOptimizerMaker{}), HasSubstr("the task's optimizer has no make"));
  EXPECT_THAT(error(TorchOptimizer{}), HasSubstr("the task's optimizer has no make"));
  const std::string null = "the task's optimizer gave a null pointer";
  EXPECT_THAT(error(OwnOptimizerMaker{.make = [](auto) { return nullptr; }, .text = ""}),
              HasSubstr(null));
  EXPECT_THAT(error(TorchOptimizer{.make = [](auto) { return nullptr; }, .text = ""}),
              HasSubstr(null));
  const auto fails = [](const NamedTensors&) -> std::unique_ptr<OwnOptimizer> {
    throw std::runtime_error("no rates.bin");
  };
  EXPECT_EQ(error(OwnOptimizerMaker{.make = fails, .text = ""}),
            "the task's optimizer: no rates.bin");
}

TEST(UserCodeTest, ErrorsOfAnOptimizerNameTheStep) {
  struct Tired : OwnOptimizer {
    void step() override {
      if (++steps == 3) throw std::runtime_error("I am tired");
    }
    NamedTensors state() const override { return {}; }
    void restore(const NamedTensors&) override {}
    void setLearningRate(double) override {}
    int steps = 0;
  };
  for (const int workers : {1, 2}) {
    Task task = taskOn(std::make_shared<Points>());
    task.optimizer = OwnOptimizerMaker{
        .make = [](const NamedTensors&) { return std::make_unique<Tired>(); }, .text = "tired"};
    EXPECT_EQ(errorOf(std::move(task), workers), "step 3: the optimizer: I am tired");
  }
}

// What is shown of two metrics.
TEST(UserCodeTest, MetricsThatAreNotShownSaySo) {
  struct Shows : Model {
    explicit Shows(bool toThrow) : throws(toThrow) {}
    torch::nn::Module& module() override { return *net; }
    std::vector<std::string> metrics() const override { return {"first", "second"}; }
    std::vector<double> shown(std::vector<double> means) const override {
      if (throws) throw std::runtime_error("no logarithm");
      means.pop_back();
      return means;
    }
    Output compute(const std::vector<torch::Tensor>& batch) override {
      return {net->forward(batch[0]).sum(), {1, 2}};
    }
    const bool throws;
    const std::shared_ptr<PointNet> net = std::make_shared<PointNet>();
  };
  const auto error = [](bool throws) {
    Task task = taskOn(std::make_shared<Points>());
    task.model = [throws] { return std::make_unique<Shows>(throws); };
    return errorOf(std::move(task));
  };
  EXPECT_EQ(error(true), "step 1: the model's shown(): no logarithm");
  EXPECT_EQ(error(false),
            "step 1: the model's shown() must give as many numbers as it gets: 2, not 1");
}

TEST(UserCodeTest, AHookThatIsNotThereSaysSo) {
  Task task = taskOn(std::make_shared<Points>());
  task.hooks = {nullptr};
  EXPECT_EQ(errorOf(task), "a hook of the task is null");
}

TEST(UserCodeTest, ErrorsOfHooksNameTheStep) {
  struct Thrower : Hook {
    explicit Thrower(std::string where) : in(std::move(where)) {}
    void check(const std::string& where) const {
      if (where == in) throw std::runtime_error("enough");
    }
    void beforeStep(std::int64_t step, Model&) override {
      if (step == 1) check("beforeStep");
    }
    void afterStep(const Progress& progress, Model&) override {
      if (progress.step == 3) check("afterStep");
    }
    void atEnd(const Progress&, Model&) override { check("atEnd"); }
    const std::string in;
  };
  const auto errorIn = [](const std::string& where) {
    Task task = taskOn(std::make_shared<Points>());
    task.hooks = {std::make_shared<Thrower>(where)};
    return errorOf(std::move(task));
  };
  EXPECT_EQ(errorIn("beforeStep"), "step 2: a hook's beforeStep(): enough");
  EXPECT_EQ(errorIn("afterStep"), "step 3: a hook's afterStep(): enough");
  EXPECT_EQ(errorIn("atEnd"), "step 4: a hook's atEnd(): enough");
}

// An evaluation is after a step, and has batches of its own.
TEST(UserCodeTest, ErrorsOfAnEvaluationSaySo) {
  Task task = taskOn(std::make_shared<Points>());
  task.data = [](Part part) -> Result<std::shared_ptr<const Dataset>> {
    if (part == Part::kTrain) return std::shared_ptr<const Dataset>(std::make_shared<Points>());
    return std::shared_ptr<const Dataset>(std::make_shared<Points>([call = 0](Batch&) mutable {
      if (++call == 2) throw std::runtime_error("record 7 is damaged");
    }));
  };
  EXPECT_THAT(
      errorOf(task, 1, /*evaluate=*/true),
      MatchesRegex("evaluation after step [0-9]: data of test batch 2, slice 0: record 7 is "
                   "damaged"));
}

// Contract: a model that never gets finished is left to the workers, and the process that made it
// is gone.
TEST(ModelCheckTest, AModelThatTakesTooLongIsLeftToTheWorkers) {
  const auto check = [] {  // In a process of one thread: with more there is no check.
    Task task = taskOn(std::make_shared<Points>());
    task.model = []() -> std::unique_ptr<Model> {
      while (true) pause();
    };
    const Deadline deadline = Deadline::after(std::chrono::milliseconds(200));
    const Status status = train::checkModelAside(task, {}, deadline);
    const bool alone = waitpid(-1, nullptr, WNOHANG) < 0;
    _exit(status.ok() && deadline.expired() && alone ? 0 : 1);
  };
  EXPECT_EXIT(check(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace colla
