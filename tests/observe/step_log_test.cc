#include "observe/step_log.h"

#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "observe/fixture.h"
#include "observe/memory.h"

namespace colla::observe {
namespace {

using nlohmann::json;
using StepLogTest = ObserveTest;

TEST_F(StepLogTest, HasAnObjectPerStepAndTotals) {
  const std::string path = folder_ + "/steps.json";
  const std::array<Metric, 2> metrics = {Metric{"accuracy", 0.5}, Metric{"odd \"name\" \xff", 1}};
  auto log = StepLog::create(path);
  ASSERT_TRUE(log.ok()) << log.status();
  ASSERT_TRUE(log->step({.number = 7,
                         .start = 1,
                         .end = 1.5,
                         .samples = 100,
                         .loss = 2.25,
                         .metrics = metrics})
                  .ok());
  ASSERT_TRUE(log->step({.number = 8, .loss = NAN, .metrics = {}}).ok());
  ASSERT_TRUE(log->finish({.steps = 2,
                           .samples = 200,
                           .seconds = 4,
                           .loss = 1.5,
                           .metrics = std::span(metrics).first(1),
                           .peakMemory = 123456789012})
                  .ok());

  std::istringstream lines(readText(path));
  std::vector<json> objects;
  for (std::string line; std::getline(lines, line);) objects.push_back(json::parse(line));
  ASSERT_EQ(objects.size(), 3u);
  EXPECT_EQ(objects[0], json({{"step", 7},
                              {"loss", 2.25},
                              {"metrics", {{"accuracy", 0.5}, {"odd \"name\" \ufffd", 1.0}}},
                              {"seconds", 0.5},
                              {"samples_per_s", 200.0}}));
  EXPECT_TRUE(objects[1]["loss"].is_null());
  EXPECT_TRUE(objects[1]["samples_per_s"].is_null());
  EXPECT_TRUE(objects[1]["metrics"].is_object());
  EXPECT_EQ(objects[2], json({{"total", true},
                              {"steps", 2},
                              {"samples", 200},
                              {"seconds", 4.0},
                              {"samples_per_s", 50.0},
                              {"loss", 1.5},
                              {"metrics", {{"accuracy", 0.5}}},
                              {"peak_memory", 123456789012}}));
}

TEST_F(StepLogTest, SaysWhereItCannotWrite) {
  EXPECT_THAT(toString(StepLog::create(folder_).status()),
              ::testing::HasSubstr("cannot write " + folder_ + ": Is a directory"));
  auto log = StepLog::create("/dev/full");
  ASSERT_TRUE(log.ok()) << log.status();
  EXPECT_EQ(log->finish({}).code(), StatusCode::kIo);
}

TEST(Memory, PeakCountsWhatWasTouchedAndGivenBack) {
  constexpr std::int64_t kBytes = 64 << 20;
  const auto before = peakMemory();
  EXPECT_GT(before, 0);
  { const std::vector<char> touched(static_cast<std::size_t>(before + kBytes), 'x'); }
  EXPECT_GT(peakMemory(), before + kBytes / 2);
}

}  // namespace
}  // namespace colla::observe
