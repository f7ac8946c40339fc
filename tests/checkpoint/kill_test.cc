// kill -9 at any moment of a save loses nothing that was complete: a real process saves, is killed
// at random moments, and each time everything that is listed must be whole.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <limits>
#include <random>
#include <set>

#include "base/unique_fd.h"
#include "checkpoint/directory.h"
#include "support/checkpoints.h"

namespace colla::checkpoint {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

class Probe {
 public:
  Probe(const std::string& directory, const char* mode) {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
    out_.reset(ends[0]);
    const UniqueFd writer(ends[1]);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(writer.get(), STDOUT_FILENO);
      execl(COLLA_KILL_PROBE, COLLA_KILL_PROBE, directory.c_str(), mode, nullptr);
      _exit(127);
    }
  }
  ~Probe() { kill(); }

  // Reads until it says a line that begins so, for 30 seconds at most.
  void waitFor(const std::string& start) {
    const auto limit = Clock::now() + std::chrono::seconds(30);
    while (Clock::now() < limit) {
      if (takeLine(start)) return;
      pollfd ready{out_.get(), POLLIN, 0};
      poll(&ready, 1, 100);
      if (!readSome()) break;
    }
    FAIL() << "the probe did not say \"" << start << "\"; last: " << text_;
  }
  // Ends it, and reads the rest of what it said.
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
    while (readSome()) {
    }
    while (takeLine("never")) {
    }
  }
  // The last save that it was done with.
  std::int64_t saved() const { return saved_; }

 private:
  bool readSome() {
    std::array<char, 4096> bytes{};
    const ssize_t got = read(out_.get(), bytes.data(), bytes.size());
    if (got > 0) text_.append(bytes.data(), static_cast<std::size_t>(got));
    return got > 0;
  }
  // Takes lines up to one that begins with `start`.
  bool takeLine(const std::string& start) {
    for (auto end = text_.find('\n'); end != std::string::npos; end = text_.find('\n')) {
      const std::string line = text_.substr(0, end);
      text_.erase(0, end + 1);
      EXPECT_FALSE(line.starts_with("failed")) << line;
      if (line.starts_with("saved ")) saved_ = std::stoll(line.substr(6));
      if (line.starts_with(start)) return true;
    }
    return false;
  }

  pid_t pid_ = -1;
  UniqueFd out_;
  std::string text_;
  std::int64_t saved_ = 0;
};

class KillTest : public CheckpointTest, public ::testing::WithParamInterface<const char*> {};

using SetAsideKillTest = CheckpointTest;

// What a whole one holds; 0 for one that is not.
std::int64_t countIn(const Loaded& loaded) {
  const std::int64_t count = std::stoll(loaded.manifest().extra.at("count"));
  for (const auto tensors : {loaded.model(), loaded.optimizer()}) {
    if (tensors.size() != 1) return 0;
    for (const std::int64_t value : valuesOf<std::int64_t>(tensors[0])) {
      if (value != count) return 0;
    }
  }
  return count;
}

TEST_P(KillTest, LosesNothingThatWasComplete) {
  const std::string mode = GetParam();
  constexpr int kKills = 60;
  std::mt19937 random(12345);
  // One save, to know within which time to kill.
  microseconds duration{};
  {
    Probe probe(path("c"), GetParam());
    probe.waitFor("begin 2");
    const auto begin = Clock::now();
    probe.waitFor("saved 2");
    duration = std::chrono::duration_cast<microseconds>(Clock::now() - begin);
  }
  std::int64_t last = 2;
  int unfinished = 0;
  for (int round = 0; round < kKills; ++round) {
    Probe probe(path("c"), GetParam());
    probe.waitFor("begin");
    // Sometime in this save or what follows it. Busy, because a sleep is coarser than a save.
    const auto moment = Clock::now() + microseconds(std::uniform_int_distribution<std::int64_t>(
                                           0, duration.count() * 3 / 2)(random));
    while (Clock::now() < moment) {
    }
    probe.kill();
    last = std::max(last, probe.saved());

    const auto names = namesIn(path("c"));
    unfinished += static_cast<int>(std::ranges::count_if(
        names, [](const std::string& name) { return name.starts_with(".step-"); }));
    const Directory directory(path("c"));
    const auto steps = directory.list();
    ASSERT_TRUE(steps.ok()) << steps.status();
    ASSERT_FALSE(steps->empty()) << "round " << round;
    std::int64_t newest = 0;
    for (const std::int64_t step : *steps) {
      const auto loaded = directory.load(step);
      ASSERT_TRUE(loaded.ok()) << "round " << round << ": " << loaded.status();
      newest = countIn(*loaded);
      ASSERT_GT(newest, 0) << loaded->path();
      if (mode == "next") {
        ASSERT_EQ(newest, step);
      }
    }
    ASSERT_GE(newest, last) << "round " << round << ": a save that was complete is gone";
    // Kills between a save and what it prunes leave one more each, until one comes through.
    if (mode == "same") {
      ASSERT_EQ(steps->size(), 1U);
    }
  }
  // Otherwise no kill hit a save, and nothing was tested.
  EXPECT_GT(unfinished, 0);
  // Nothing piles up: the next process clears away what the dead ones left.
  Directory directory(path("c"));
  ASSERT_TRUE(directory.prune(3, std::numeric_limits<std::int64_t>::max()).ok());
  EXPECT_LE(directory.list()->size(), mode == "next" ? 3U : 1U);
  for (const std::string& name : namesIn(path("c"))) {
    EXPECT_TRUE(name == ".lock" || name.starts_with("step-")) << name;
  }
}

// Contract: what a resumed run leaves behind is where it was or set aside, and whole.
TEST_F(SetAsideKillTest, LosesNothing) {
  constexpr int kKills = 40;
  std::mt19937 random(54321);
  std::int64_t last = 0;
  int folders = 0;
  for (int round = 0; round < kKills; ++round) {
    {
      Probe probe(path("c"), "aside");
      probe.waitFor("saved");
      const auto moment = Clock::now() + microseconds(std::uniform_int_distribution<std::int64_t>(
                                             0, 20'000)(random));
      while (Clock::now() < moment) {
      }
      probe.kill();
      last = std::max(last, probe.saved());
    }
    std::vector<std::string> places = {path("c")};
    for (const std::string& name : namesIn(path("c"))) {
      if (name.starts_with("set-aside-")) places.push_back(path("c/" + name));
    }
    folders = static_cast<int>(places.size()) - 1;
    std::set<std::int64_t> found;
    for (const std::string& place : places) {
      const Directory directory(place);
      const auto steps = directory.list();
      ASSERT_TRUE(steps.ok()) << steps.status();
      for (const std::int64_t step : *steps) {
        EXPECT_TRUE(found.insert(step).second) << step << " is there twice";
        if (step < last - 3 && round + 1 < kKills) continue;  // Looked at before, and at the end.
        const auto loaded = directory.load(step);
        ASSERT_TRUE(loaded.ok()) << "round " << round << ": " << loaded.status();
        EXPECT_EQ(countIn(*loaded), step);
      }
    }
    for (std::int64_t step = 1; step <= last; ++step) {
      ASSERT_TRUE(found.contains(step)) << "round " << round << ": step " << step << " is gone";
    }
  }
  EXPECT_GT(folders, 3);
}

INSTANTIATE_TEST_SUITE_P(Modes, KillTest, ::testing::Values("next", "same"),
                         [](const auto& mode) { return std::string(mode.param); });

}  // namespace
}  // namespace colla::checkpoint
