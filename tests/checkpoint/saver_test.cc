// Saving in the background: the caller may go on at once, errors come back, nothing is lost at the
// end.
#include "checkpoint/saver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "support/checkpoints.h"

namespace colla::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using SaverTest = CheckpointTest;

TEST_F(SaverTest, TheCallerMayChangeItsTensorsAtOnce) {
  constexpr std::size_t kMany = 4 << 20;  // Enough for the change to come while they are written.
  std::vector<float> values(kMany, 1.0F);
  const TensorView view{"w", DataType::kFloat32, {kMany}, std::as_bytes(std::span(values))};
  Saver saver(Directory(path("c")));
  Manifest manifest;
  manifest.step = 1;
  ASSERT_TRUE(saver.start(manifest, {{&view, 1}, {}, {}}).ok());
  std::ranges::fill(values, 2.0F);
  ASSERT_TRUE(saver.finish().ok());
  const auto loaded = Directory(path("c")).load(1);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(std::ranges::count(valuesOf<float>(loaded->model()[0]), 1.0F), kMany);
}

TEST_F(SaverTest, ReportsEachAndKeepsTheNewest) {
  std::vector<std::int64_t> steps;
  std::uint64_t bytes = 0;
  Saver saver(Directory(path("c")),
              {.keep = 2, .afterSave = [&](const Saved& saved, double seconds) {
                 steps.push_back(saved.step);
                 bytes += saved.bytes;
                 EXPECT_GE(seconds, 0);
                 EXPECT_TRUE(std::filesystem::exists(saved.path));
               }});
  for (std::int64_t step = 0; step < 5; ++step) {
    Example example(step);
    // Tensors that come and grow.
    example.optimizer.add<double>("more", {step},
                                  std::vector<double>(static_cast<std::size_t>(step), 1.0));
    ASSERT_TRUE(saver.start(example.manifest, example.contents()).ok());
  }
  ASSERT_TRUE(saver.finish().ok());
  EXPECT_THAT(steps, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_GT(bytes, 0U);
  EXPECT_THAT(namesIn(path("c")), ElementsAre(".lock", "step-00000003", "step-00000004"));
  const auto loaded = Directory(path("c")).loadNewest();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(valuesOf<double>(loaded->optimizer()[1]), ElementsAre(1, 1, 1, 1));
}

TEST_F(SaverTest, DestructionWritesWhatWasStarted) {
  {
    Saver saver(Directory(path("c")));
    const Example example(3);
    ASSERT_TRUE(saver.start(example.manifest, example.contents()).ok());
  }
  EXPECT_TRUE(Directory(path("c")).load(3).ok());
}

TEST_F(SaverTest, ASecondOneWaitsForTheFirst) {
  std::atomic<int> writing = 0;
  std::atomic<bool> together = false;
  Saver saver(Directory(path("c")), {.afterSave = [&](const Saved&, double) {
                if (++writing > 1) together = true;
                std::this_thread::yield();
                --writing;
              }});
  for (std::int64_t step = 1; step <= 10; ++step) {
    const Example example(step);
    ASSERT_TRUE(saver.start(example.manifest, example.contents()).ok());
    const auto before = Directory(path("c")).list();
    // All but the one that was just started are there.
    EXPECT_GE(before->size(), static_cast<std::size_t>(step - 1));
  }
  ASSERT_TRUE(saver.finish().ok());
  EXPECT_FALSE(together);
}

// Also one that is no exception as others are. What was saved stays.
TEST_F(SaverTest, WhatAfterSaveThrowsIsTheSavesError) {
  Saver saver(Directory(path("c")), {.afterSave = [](const Saved& saved, double) {
                if (saved.step == 1) throw std::runtime_error("my disk is my own");
                if (saved.step == 2) throw 2;
              }});
  for (const std::int64_t step : {1, 2, 3}) {
    const Example example(step);
    ASSERT_TRUE(saver.start(example.manifest, example.contents()).ok());
    const Status status = saver.finish();
    EXPECT_EQ(status.ok(), step == 3) << status;
    if (step == 1) {
      EXPECT_EQ(status.message(), "after the save of step 1: my disk is my own");
    }
    EXPECT_TRUE(Directory(path("c")).load(step).ok());
  }
}

TEST_F(SaverTest, AnErrorComesBackOnceAndTheNextCanSucceed) {
  writeText(path("c"), "in the way");
  Saver saver(Directory(path("c")));
  const Example example(1);
  ASSERT_TRUE(saver.start(example.manifest, example.contents()).ok());
  const Status status = saver.start(example.manifest, example.contents());
  EXPECT_THAT(std::string(status.message()), HasSubstr(path("c")));
  EXPECT_TRUE(saver.finish().ok());  // It has been told.
  std::filesystem::remove(path("c"));
  ASSERT_TRUE(saver.start(example.manifest, example.contents()).ok());
  EXPECT_TRUE(saver.finish().ok());
  EXPECT_TRUE(Directory(path("c")).load(1).ok());
}

}  // namespace
}  // namespace colla::checkpoint
