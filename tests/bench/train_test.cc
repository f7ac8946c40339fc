// `colla bench train` as users call it, with small data sets. Checks what comes out, never how
// fast.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>

#include "bench/bench_command.h"
#include "support/colla_process.h"

namespace {

using colla::launch::CollaProcess;
using colla::launch::eventually;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class TrainTest : public colla::bench::BenchCommand {
 protected:
  TrainTest() : BenchCommand("train") {}
};

TEST_F(TrainTest, MeasuresEverySystemAtEveryPoint) {
  const auto list = measure("--samples 400 --models softmax,lr --batch 20,100");
  std::map<std::string, int> systems;
  std::map<std::string, std::set<double>> points;
  for (const auto& one : list) {
    const std::string system = one["system"];
    ++systems[system];
    EXPECT_EQ(one["workers"], system == "torch" || system == "colla-1" ? 1 : 2) << one;
    EXPECT_GT(one["step_seconds"], 0.0);
    EXPECT_NEAR(one["samples_per_s"].get<double>() * one["step_seconds"].get<double>(),
                one["batch"].get<double>(), 1e-6);
    EXPECT_GT(one["pss_bytes"], 1'000'000) << one;
    EXPECT_EQ(one.contains("exposed_seconds"), system == "colla-2") << one;
    points[one["model"].get<std::string>() + one["batch"].dump()].insert(one["loss"].get<double>());
  }
  for (const char* system : {"colla-1", "colla-2", "colla-2x1"}) {
    EXPECT_EQ(systems[system], 4) << system;
  }
  // Peers run where they are installed; where not, a line says what to install.
  for (const std::string peer : {"torch", "ddp"}) {
    const bool leftOut = error_.find(peer + " is left out") != std::string::npos;
    EXPECT_EQ(systems[peer], leftOut ? 0 : 4) << error_;
  }
  EXPECT_EQ(points.size(), 4U);
  for (const auto& [point, losses] : points) {
    // All have trained: untrained, ten classes have a loss of 2.3 and two of 0.69.
    EXPECT_LT(*losses.rbegin(), point.starts_with("lr") ? 0.65 : 2.25) << point;
    EXPECT_LT(*losses.rbegin() - *losses.begin(), 1e-3 * *losses.begin()) << point;
  }
  EXPECT_THAT(out_, StartsWith("model "));
  for (const auto& [system, count] : systems) {
    EXPECT_EQ(count > 0, out_.find("  " + system + " ") != std::string::npos) << system;
  }
}

// Both variants, with PyTorch as the judge of the losses, which noise blurs in smaller batches.
TEST_F(TrainTest, DeepFam) {
  for (const std::string model : {"deepfam", "deepfam-none"}) {
    const auto list = measure("--samples 16 --batch 16 --models " + model);
    EXPECT_GE(list.size(), 3U);
    for (const auto& one : list) EXPECT_EQ(one["model"], model);
  }
}

// Alone, together and under DDP, with the same weights and the same candidates: a command that ends
// well has compared the losses.
TEST_F(TrainTest, ImagesAndWords) {
  for (const std::string model : {"resnet50v2", "inceptionv3", "lm"}) {
    const auto list = measure("--samples 8 --batch-per-worker 4 --models " + model);
    EXPECT_GE(list.size(), 3U);
    for (const auto& one : list) {
      EXPECT_EQ(one["model"], model);
      if (one["system"] == "reader") continue;
      EXPECT_EQ(one["batch_per_worker"], 4);
      EXPECT_EQ(one["batch"], 4 * one["workers"].get<int>());
    }
    EXPECT_THAT(out_, HasSubstr("4/worker"));
    EXPECT_EQ(list.back()["system"] == "reader", model != "lm");
  }
}

TEST_F(TrainTest, EpochsTakeTheTimeOfEveryChange) {
  const auto list = measure("--parts epochs", "--rounds 1 ");
  ASSERT_EQ(list.size(), 3U);
  for (const auto& one : list) {
    EXPECT_EQ(one["part"], "epochs");
    EXPECT_EQ(one["workers"], 4);
    EXPECT_GT(one["low_seconds"], 0.0) << one;
    EXPECT_LE(one["low_seconds"], one["seconds"]) << one;
    EXPECT_LE(one["seconds"], one["high_seconds"]) << one;
    EXPECT_LE(one["high_seconds"], one["most_seconds"]) << one;
    EXPECT_GT(one["changes"], 1);
    EXPECT_THAT(out_, HasSubstr(one["system"].get<std::string>() + " "));
  }
  EXPECT_EQ(list[2]["servers"], 2);
}

TEST_F(TrainTest, WrongCommandLinesAreUsageErrors) {
  for (const char* arguments :
       {"--models mlp,resnet", "--batch 0", "--batch 700", "--samples 150 --batch 100",
        "--peers gloo", "--parts push", "extra"}) {
    EXPECT_EQ(bench(arguments), 2) << arguments;
    EXPECT_THAT(out_, IsEmpty());
  }
  EXPECT_EQ(bench("--models lm --samples 12 --batch-per-worker 4"), 2);
  EXPECT_THAT(error_, HasSubstr("--batch-per-worker 4, twice, must divide the 12 samples of lm"));
  EXPECT_EQ(bench("--models mlp --samples 12 --batch 5"), 2);
  EXPECT_THAT(error_, HasSubstr("--batch 5 must be even and divide the 12 samples of mlp"));
  EXPECT_EQ(bench("--batch 100 --batch-per-worker 50"), 2);
}

TEST_F(TrainTest, NamedPeerThatIsMissingIsAnError) {
  EXPECT_EQ(
      bench("--samples 400 --batch 100 --peers ddp", "COLLA_TORCH_PYTHON=/nonexistent/python"), 1);
  EXPECT_THAT(out_, IsEmpty());
  EXPECT_THAT(error_, AllOf(HasSubstr("ddp: no Python with torch"), HasSubstr("pip install")));
}

TEST_F(TrainTest, KilledWorkerIsNamed) {
  CollaProcess::Options options;
  options.wrapper = "exec env TMPDIR='" + temporary() + "' \"$@\"";
  CollaProcess process({"bench", "train", "--models", "softmax", "--peers", "none", "--samples",
                        "400", "--batch", "100", "--rounds", "1000", "--seconds", "0.05"},
                       options);
  // The workers of the last system are the last to come.
  std::vector<colla::launch::MarkedProcess> workers;
  ASSERT_TRUE(eventually([&] {
    workers = process.processes();
    std::erase_if(workers, [](const auto& one) { return !one.name.starts_with("colla-bench"); });
    return workers.size() == 5;
  })) << process.err();
  kill(std::ranges::max(workers, {}, &colla::launch::MarkedProcess::pid).pid, SIGKILL);
  EXPECT_EQ(process.wait(), 1);
  EXPECT_THAT(process.err(), HasSubstr("colla-2x1 rank"));
}

}  // namespace
