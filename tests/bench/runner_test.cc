// Rounds, medians and checks, with agents that only say what they are told to.
#include "bench/runner.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "bench/agent.h"
#include "bench/collective_agents.h"
#include "bench/systems.h"
#include "bench/trainings.h"

namespace colla::bench {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(RunnerTest, AimsAtTheTargetInBoundedSteps) {
  EXPECT_EQ(nextIterations(1, 0.001, 0.1), 32);  // Would be 100, but first ones are slow.
  EXPECT_EQ(nextIterations(32, 0.032, 0.1), 100);
  EXPECT_EQ(nextIterations(100, 1.0, 0.1), 10);  // Too many before.
  EXPECT_EQ(nextIterations(1, 5.0, 0.1), 1);     // One at least.
  EXPECT_EQ(nextIterations(1'900'000, 1e-6, 1.0), 2'000'000);
}

TEST(RunnerTest, MedianIsTheMiddleOfTheSortedValues) {
  EXPECT_EQ(median({7}), 7);
  EXPECT_EQ(median({9, 1, 5}), 5);
  EXPECT_EQ(median({8, 2, 100, 4}), 6);
}

TEST(RunnerTest, RanksTogetherAreAsFastAsTheSlowestAndRatesOfIndependentOnesAddUp) {
  const std::vector<double> ranks = {6e-3, 12e-3};
  EXPECT_DOUBLE_EQ(iterationSeconds(ranks, 10, false), 1.2e-3);
  // Half an iteration in 0.6 ms and half of one in 1.2 ms.
  EXPECT_DOUBLE_EQ(iterationSeconds(ranks, 10, true), 0.8e-3);
}

// Says whose turn it is.
class Announcing : public Contender {
 public:
  Announcing(std::string name, std::vector<std::string>& turns, std::vector<double> seconds)
      : name_(std::move(name)), turns_(turns), seconds_(std::move(seconds)) {}
  const std::string& name() const override { return name_; }
  Result<double> prepare() override { return 7.0; }
  Result<Timing> measure(long iterations) override {
    turns_.push_back(name_);
    const double seconds = seconds_[rounds_++ % seconds_.size()] * double(iterations);
    return Timing{seconds, {{name_ + " rank 0", seconds / 4}}, seconds};
  }

 private:
  const std::string name_;
  std::vector<std::string>& turns_;
  const std::vector<double> seconds_;
  std::size_t rounds_ = 0;
};

TEST(RunnerTest, InterleavesRoundsAndReportsMediansAndCores) {
  std::vector<std::string> turns;
  std::vector<std::unique_ptr<Contender>> contenders;
  contenders.push_back(std::make_unique<Announcing>("a", turns, std::vector{1.0, 9.0, 2.0}));
  contenders.push_back(std::make_unique<Announcing>("b", turns, std::vector{3.0}));
  RunnerOptions options;
  options.rounds = 3;
  options.seconds = 0;
  options.iterations = 5;
  const auto outcomes = measure(contenders, options);
  ASSERT_TRUE(outcomes.ok()) << outcomes.status();
  EXPECT_THAT(turns, ElementsAre("a", "b", "a", "b", "a", "b"));
  EXPECT_EQ((*outcomes)[0].seconds, 2.0);
  EXPECT_EQ((*outcomes)[1].seconds, 3.0);
  EXPECT_EQ((*outcomes)[0].value, 7.0);
  EXPECT_EQ((*outcomes)[0].rounds, 3);
  EXPECT_EQ((*outcomes)[0].iterations, 5);
  EXPECT_DOUBLE_EQ((*outcomes)[0].cores.at("a rank 0"), 0.25);
}

// A worker whose loss may be told by what it was asked to train.
struct Fake : Workload {
  explicit Fake(double fakeLoss, bool isTelling = false) : loss(fakeLoss), telling(isTelling) {}
  Status prepare(const std::string& what) override {
    if (what.starts_with("lr")) throw std::runtime_error("no such kernel\nstack trace");
    std::int64_t samples = 0, batch = 0, share = 0;
    char model[16];
    std::sscanf(what.c_str(), "%15s %ld %ld %ld", model, &samples, &batch, &share);
    if (telling) loss = static_cast<double>(batch) + static_cast<double>(share) / 1000;
    return what.ends_with(" /a path/with spaces") ? Status() : Status(StatusCode::kInternal, what);
  }
  Result<double> verify(long /*iterations*/) override { return loss; }
  Status barrier() override { return {}; }
  // Has much memory for a moment.
  Status run(long /*iterations*/) override {
    constexpr std::size_t kBytes = 50'000'000;
    void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    std::this_thread::sleep_for(100ms);
    munmap(memory, kBytes);
    return {};
  }
  double loss;
  bool telling;
};

class TrainingsTest : public ::testing::Test {
 protected:
  // One worker for each loss.
  void start(TrainSystem system, const std::vector<Fake>& workers) {
    system.workers = static_cast<int>(workers.size());
    const Status status = coordinator_->start(
        forkedSystem({*coordinator_, system.workers}, system.name,
                     [&](const AgentPlace& place) {
                       Fake fake = workers[static_cast<std::size_t>(place.rank)];
                       return serveAgent(place, fake);
                     }),
        Deadline::after(10s));
    ASSERT_TRUE(status.ok()) << status;
    systems_.push_back(system);
  }
  Result<Records> train(const std::string& model = "mlp") {
    RunnerOptions options;
    options.rounds = 1;
    options.seconds = 0.01;
    return measureTraining(*coordinator_, systems_,
                           {**parseModel(model), 1000, "/a path/with spaces", batch_}, options);
  }
  std::string failureOf(const std::string& model = "mlp") {
    return std::string(train(model).status().message());
  }
  std::vector<double> losses() {
    std::vector<double> all;
    const auto records = train();
    if (!records.ok()) ADD_FAILURE() << records.status();
    if (records.ok()) {
      for (const Record& record : *records) all.push_back(record["loss"]);
    }
    return all;
  }

  const std::unique_ptr<Coordinator> coordinator_ = *Coordinator::create();
  std::vector<TrainSystem> systems_;
  BatchSize batch_{100};
};

TEST_F(TrainingsTest, RecordsHaveTheDocumentedMembers) {
  start({"ddp"}, {Fake(1.5), Fake(2.5)});
  start({"colla-2"}, {Fake(2), Fake(2)});
  start({"colla-2x1", 0, true}, {Fake(2), Fake(2)});
  const auto records = train();
  ASSERT_TRUE(records.ok()) << records.status();
  for (const Record& record : *records) {
    const double seconds = record["step_seconds"];
    EXPECT_GT(seconds, 0.0);
    EXPECT_NEAR(record["samples_per_s"].get<double>() * seconds, 100, 1e-6);
    EXPECT_EQ(record["model"], "mlp");
    EXPECT_EQ(record["batch"], 100);
    EXPECT_EQ(record["workers"], 2);
    EXPECT_EQ(record["loss"], 2.0);  // The mean over the workers.
    EXPECT_EQ(record["rounds"], 1);
    EXPECT_GE(record["steps"], 1);
    EXPECT_GT(record["pss_bytes"], 50'000'000);  // The most at any time.
    EXPECT_EQ(record.contains("exposed_seconds"), record["system"] == "colla-2");
    EXPECT_TRUE(record["cores"].contains(record["system"].get<std::string>() + " rank 1"));
  }
}

TEST_F(TrainingsTest, ADifferentLossIsAnError) {
  start({"torch"}, {Fake(2)});
  start({"colla-1"}, {Fake(2.003)});
  EXPECT_THAT(failureOf(),
              AllOf(HasSubstr("mlp batch 100"),
                    HasSubstr("the loss of colla-1 is 2.003, but that of torch is 2")));
}

TEST_F(TrainingsTest, ALossThatIsNotANumberIsAnError) {
  start({"colla-1"}, {Fake(std::nan(""))});
  EXPECT_FALSE(train().ok());
}

TEST_F(TrainingsTest, AsynchronousLossesOnlyHaveToBeFinite) {
  start({"colla-ps-sync"}, {Fake(2)});
  start({"colla-ps-async", 0, true, true}, {Fake(3)});
  EXPECT_TRUE(train().ok());
}

// With statistics of a worker's own share, other shares give other losses.
TEST_F(TrainingsTest, BatchStatisticsCompareThoseWithEqualShares) {
  start({"torch"}, {Fake(2)});
  start({"ddp"}, {Fake(1.8), Fake(1.8)});
  start({"colla-2x1", 0, true}, {Fake(2), Fake(2)});
  EXPECT_FALSE(train("mlp").ok());
  EXPECT_TRUE(train("deepfam").ok());
  start({"colla-2"}, {Fake(2), Fake(2)});
  EXPECT_THAT(failureOf("deepfam"), HasSubstr("the loss of colla-2 is 2, but that of ddp is 1.8"));
}

TEST_F(TrainingsTest, SystemsGetTheirPartsOfTheBatch) {
  start({"colla-1"}, {Fake(0, true)});
  start({"colla-2"}, {Fake(0, true), Fake(0, true)});
  start({"colla-2x1", 0, true}, {Fake(0, true), Fake(0, true)});
  // The whole batch to verify, half of it for each of two workers to measure.
  EXPECT_THAT(losses(), ElementsAre(100.1, 100.05, 100.05));
  // With a batch per worker, those that train together have twice as much.
  batch_ = {100, true};
  EXPECT_THAT(losses(), ElementsAre(100.1, 200.1, 100.1));
}

TEST_F(TrainingsTest, AnExceptionIsReportedInOneLine) {
  start({"colla-1"}, {Fake(2)});
  EXPECT_THAT(failureOf("lr"), AllOf(HasSubstr("colla-1 rank 0"), HasSubstr("no such kernel"),
                                     ::testing::Not(HasSubstr("\n"))));
}

// The bare loop really adds: it is what everything else is measured against.
TEST(BareTest, IsRightForAnyNumberOfRanks) {
  for (const int np : {2, 3, 5}) {
    const auto coordinator = *Coordinator::create();
    const auto memory = *BareMemory::create(np, 10'000 * sizeof(float));
    const auto spec = forkedSystem({*coordinator, np}, "bare", [&](const AgentPlace& place) {
      return serveAgent(place, *makeBareWorkload(*memory, place.rank));
    });
    ASSERT_TRUE(coordinator->start(spec, Deadline::after(10s)).ok());
    for (const int elements : {1, 17, 1000, 10'000}) {
      for (const std::string& line :
           {fmt::format("prepare allreduce {}", elements), std::string("verify 1"),
            std::string("measure 3"), std::string("verify 1")}) {
        const auto answers = coordinator->ask("bare", line, Deadline::after(20s));
        EXPECT_TRUE(answers.ok()) << answers.status();
      }
    }
    const auto refused = coordinator->ask("bare", "prepare alltoall 100", Deadline::after(20s));
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr("allreduce only"));
  }
}

}  // namespace
}  // namespace colla::bench
