#include "observe/progress.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>

#include <array>
#include <cstdlib>

#include "base/unique_fd.h"
#include "observe/fixture.h"

namespace colla::observe {
namespace {

using namespace std::chrono_literals;

constexpr std::array<Metric, 4> kMetrics = {Metric{"loss", 2.01789}, Metric{"accuracy", 0.2585},
                                            Metric{"val_loss", 0.00012}, Metric{"val_accuracy", 0}};
constexpr Metrics kTwo = Metrics(kMetrics).first(2);
const TimePoint kBegan = TimePoint{} + 1h;

SectionState epochAt(std::int64_t done) {
  return {.section = {.epoch = 1, .epochs = 5, .steps = 196},
          .began = kBegan,
          .done = done,
          .samples = done * 100};
}

TEST(ProgressLine, EpochsLookLikeKeras) {
  EXPECT_EQ(sectionTitle(epochAt(0).section), "Epoch 1/5");
  EXPECT_EQ(sectionEnd(epochAt(196), kTwo, kBegan + 42s),
            "196/196 - 42s - loss: 2.0179 - accuracy: 0.2585");
  EXPECT_EQ(sectionEnd(epochAt(196), kMetrics, kBegan + 41501ms),
            "196/196 - 42s - loss: 2.0179 - accuracy: 0.2585 - val_loss: 1.2000e-04 - "
            "val_accuracy: 0.0000");
}

TEST(ProgressLine, StepsSayThatTheyAreSteps) {
  const SectionState state{
      .section = {.steps = 1000, .already = 100}, .began = kBegan, .done = 200, .samples = 10'000};
  EXPECT_EQ(sectionTitle(state.section), "");
  EXPECT_EQ(sectionEnd(state, kTwo, kBegan + 12s),
            "Step 200/1000 - 12s - loss: 2.0179 - accuracy: 0.2585");
  // 100 steps took 10 s, so 800 take 80 s.
  EXPECT_EQ(bar(state, {}, kBegan + 10s, 79),
            "Step  200/1000 [=====>........................] - 1000 samples/s - ETA: 1:20");
}

TEST(ProgressLine, BarTellsRateAndTimeLeft) {
  EXPECT_EQ(bar(epochAt(0), {}, kBegan, 79), "  0/196 [..............................]");
  EXPECT_EQ(bar(epochAt(49), kTwo, kBegan + 10s, 120),
            " 49/196 [======>.......................] - 490 samples/s - ETA: 30s - loss: 2.0179 - "
            "accuracy: 0.2585");
  EXPECT_EQ(bar(epochAt(1), {}, kBegan + 100s, 79),
            "  1/196 [..............................] - 1.00 samples/s - ETA: 5:25:00");
  EXPECT_EQ(bar(epochAt(196), {}, kBegan + 20s, 79),
            "196/196 [==============================] - 980 samples/s - ETA: 0s");
}

TEST(ProgressLine, BarFitsAnyWidth) {
  const auto at = [](int width) { return bar(epochAt(49), kMetrics, kBegan + 10s, width); };
  for (int width = 0; width < 200; ++width) {
    EXPECT_LE(at(width).size(), static_cast<std::size_t>(width));
  }
  EXPECT_EQ(
      at(90),
      " 49/196 [===>...............] - 490 samples/s - ETA: 30s - loss: 2.0179 - accuracy: 0.2585");
  EXPECT_EQ(at(66), " 49/196 [==>...........] - 490 samples/s - ETA: 30s - loss: 2.0179");
  EXPECT_EQ(at(51), " 49/196 - 490 samples/s - ETA: 30s - loss: 2.0179");
  EXPECT_EQ(at(33), " 49/196 - ETA: 30s - loss: 2.0179");
}

class ProgressTest : public ObserveTest {
 protected:
  // Everything that a run of two epochs writes.
  void train(std::FILE* file) {
    Progress progress(file, clock_);
    for (int epoch = 1; epoch <= 2; ++epoch) {
      progress.begin({.epoch = epoch, .epochs = 2, .steps = 40});
      for (int step = 1; step <= 40; ++step) {
        clock_.advance(25ms);
        progress.step(step, step * 10, kTwo);
      }
      progress.end(kTwo);
    }
  }
};

TEST_F(ProgressTest, FileGetsLinesAndNothingElse) {
  const std::string path = folder_ + "/out";
  std::FILE* file = std::fopen(path.c_str(), "w");
  train(file);
  std::fclose(file);
  EXPECT_EQ(readText(path),
            "Epoch 1/2\n40/40 - 1s - loss: 2.0179 - accuracy: 0.2585\n"
            "Epoch 2/2\n40/40 - 1s - loss: 2.0179 - accuracy: 0.2585\n");
}

// A file that is a terminal, and what arrives there.
class Terminal {
 public:
  explicit Terminal(int width) {
    const winsize size = sizeOf(width);
    int ours = -1;
    int theirs = -1;
    termios raw{};
    cfmakeraw(&raw);
    EXPECT_EQ(openpty(&ours, &theirs, nullptr, &raw, &size), 0);
    master_.reset(ours);
    file_ = fdopen(theirs, "w");
  }
  ~Terminal() { std::fclose(file_); }
  std::FILE* file() { return file_; }
  void resize(int width) {
    const winsize size = sizeOf(width);
    EXPECT_EQ(ioctl(master_.get(), TIOCSWINSZ, &size), 0);
  }
  // All that was written since.
  std::string read() {
    std::string text;
    std::array<char, 4096> buffer;
    for (pollfd entry{master_.get(), POLLIN, 0}; poll(&entry, 1, 0) == 1;) {
      const auto size = ::read(master_.get(), buffer.data(), buffer.size());
      if (size <= 0) break;
      text.append(buffer.data(), static_cast<std::size_t>(size));
    }
    return text;
  }

 private:
  static winsize sizeOf(int width) {
    winsize size{};
    size.ws_row = 24;
    size.ws_col = static_cast<unsigned short>(width);
    return size;
  }
  UniqueFd master_;
  std::FILE* file_ = nullptr;
};

// As under `colla run`, which gives a process a terminal of its own making if it has one itself.
class ProgressTerminalTest : public ProgressTest {
 protected:
  ProgressTerminalTest() {
    setenv("TERM", "xterm", 1);
    setenv("COLLA_RANK", "0", 1);
  }
  ~ProgressTerminalTest() override { unsetenv("COLLA_RANK"); }
  Terminal terminal_{80};
};

TEST_F(ProgressTerminalTest, RedrawsInPlaceAtMostTenTimesASecond) {
  train(terminal_.file());
  const std::string text = terminal_.read();
  // Two epochs of one second: a bar at each start, at most ten more each, and the end over it.
  const auto returns = std::ranges::count(text, '\r');
  EXPECT_GE(returns, 20);
  EXPECT_LE(returns, 24);
  EXPECT_EQ(std::ranges::count(text, '\n'), 4);
  EXPECT_EQ(text.find("Epoch 1/2\n\r 0/40 ["), 0u) << text;
  EXPECT_TRUE(text.ends_with("\r40/40 - 1s - loss: 2.0179 - accuracy: 0.2585\033[K\n")) << text;
}

TEST_F(ProgressTerminalTest, FollowsTheWindowAndLeavesNothingBehind) {
  {
    Progress progress(terminal_.file(), clock_);
    progress.begin({.steps = 1000});
    EXPECT_EQ(terminal_.read(), "\rStep    0/1000 [..............................]\033[K");
    terminal_.resize(30);
    clock_.advance(100ms);
    EXPECT_TRUE(progress.wantsStep());
    progress.step(10, 10, kTwo);
    EXPECT_EQ(terminal_.read().size(), 29 + std::string("\r\033[K").size());
    EXPECT_FALSE(progress.wantsStep());
    progress.step(11, 11, kTwo);
    EXPECT_EQ(terminal_.read(), "");
    progress.pause();
    EXPECT_EQ(terminal_.read(), "\r\033[K");
    progress.step(12, 12, kTwo);
    EXPECT_NE(terminal_.read(), "");
  }
  EXPECT_EQ(terminal_.read(), "\r\033[K");
}

// mpirun gives its processes terminals, but what these show goes into its own output.
TEST_F(ProgressTerminalTest, TerminalOfAnUnknownLauncherGetsLines) {
  unsetenv("COLLA_RANK");
  Progress progress(terminal_.file(), clock_);
  progress.begin({.steps = 10});
  progress.step(10, 10, kTwo);
  progress.end({});
  EXPECT_EQ(terminal_.read(), "Step 10/10 - 0s\n");
}

TEST_F(ProgressTerminalTest, DumbTerminalGetsLines) {
  setenv("TERM", "dumb", 1);
  Progress progress(terminal_.file(), clock_);
  progress.begin({.steps = 10});
  progress.step(10, 10, kTwo);
  progress.end({});
  EXPECT_EQ(terminal_.read(), "Step 10/10 - 0s\n");
}

}  // namespace
}  // namespace colla::observe
