// The sinks write what the writers behind them do: each gets every event that it cares about.
#include "observe/sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>

#include "observe/fixture.h"

namespace colla::observe {
namespace {

using ::testing::HasSubstr;

class SinkTest : public ObserveTest {
 protected:
  // One section of two steps, the second one evaluated.
  static Status run(Sink& sink) {
    const std::array<Metric, 2> means = {Metric{"loss", 2.5}, Metric{"accuracy", 0.25}};
    std::array<Metric, 3> metrics = {Metric{"accuracy", 0.5}, Metric{"val_loss", 1.5},
                                     Metric{"val_accuracy", 0.75}};
    COLLA_TRY(sink.begin({.epoch = 1, .epochs = 1, .steps = 2}));
    for (std::int64_t number = 1; number <= 2; ++number) {
      Step step{.number = number,
                .start = double(number - 1),
                .end = double(number),
                .samples = 10,
                .loss = 3.0 - double(number),
                .metrics = Metrics(metrics).first(1)};
      COLLA_TRY(sink.step(step, {.steps = number, .samples = 10 * number, .metrics = means}));
      if (number == 2) {
        const std::array<Metric, 2> test = {Metric{"loss", 1.5}, Metric{"accuracy", 0.75}};
        COLLA_TRY(sink.evaluation(number, test));
        step.metrics = metrics;
      }
      COLLA_TRY(sink.endStep(step));
    }
    COLLA_TRY(sink.end(means));
    COLLA_TRY(sink.flush());
    return sink.finish({.steps = 2, .samples = 20, .seconds = 2, .loss = 2.5, .metrics = {}});
  }
};

TEST_F(SinkTest, RunLog) {
  auto sink = runLogSink(folder_ + "/log.txt", 0);
  ASSERT_TRUE(sink.ok());
  ASSERT_TRUE(run(**sink).ok());
  const std::string text = readText(folder_ + "/log.txt");
  EXPECT_EQ(std::ranges::count(text, '\n'), 3) << text;
  EXPECT_THAT(text, HasSubstr("\n2\t1.000000\t2.000000\t1\t0.500000\n"));
}

TEST_F(SinkTest, Json) {
  auto sink = jsonSink(folder_ + "/steps.json");
  ASSERT_TRUE(sink.ok());
  ASSERT_TRUE(run(**sink).ok());
  const std::string text = readText(folder_ + "/steps.json");
  EXPECT_EQ(std::ranges::count(text, '\n'), 3) << text;
  EXPECT_THAT(text,
              HasSubstr("\"val_accuracy\":0.75"));  // The step is written after its evaluation.
  EXPECT_THAT(text, HasSubstr("\"total\":true"));
}

TEST_F(SinkTest, Events) {
  auto sink = eventSink(folder_, 0);
  ASSERT_TRUE(sink.ok());
  ASSERT_TRUE(run(**sink).ok());
  const auto file = std::filesystem::directory_iterator(folder_)->path();
  const std::string bytes = readText(file);
  for (const char* tag : {"train/loss", "train/accuracy", "test/loss", "test/accuracy"}) {
    EXPECT_THAT(bytes, HasSubstr(tag));
  }
}

TEST_F(SinkTest, Progress) {
  const std::string path = folder_ + "/out";
  std::FILE* const file = std::fopen(path.c_str(), "w");
  ASSERT_TRUE(run(*progressSink(file)).ok());
  std::fclose(file);
  EXPECT_THAT(readText(path), HasSubstr("loss: 2.5000 - accuracy: 0.2500"));
}

TEST_F(SinkTest, NamesTheFileThatCannotBeWritten) {
  EXPECT_THAT(jsonSink(folder_ + "/none/x").status().message(), HasSubstr(folder_ + "/none/x"));
}

}  // namespace
}  // namespace colla::observe
