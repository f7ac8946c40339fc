// Contract: the workers of a host keep their data once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>

#include "train/runs.h"

namespace colla::train {
namespace {

// A line of a process's smaps_rollup, in MiB; 0 where it is gone.
std::size_t mebibytesOf(pid_t process, const std::string& key) {
  std::ifstream file("/proc/" + std::to_string(process) + "/smaps_rollup");
  for (std::string word; file >> word;) {
    std::size_t kilobytes = 0;
    if (word == key + ":" && file >> kilobytes) return kilobytes >> 10;
  }
  return 0;
}

// 305 MiB of numbers. One worker alone has about what one of two has in its address space.
TEST(ShareDataTest, TwoWorkersTakeLittleMoreThanOne) {
  const Scratch scratch;
  launch::CollaProcess process({"train", "lr", "--data", "synthetic:lr:8000x10000", "--np", "2",
                                "--threads", "1", "--epochs", "100000", "--no-eval", "--json",
                                scratch.at("steps.json")});
  ASSERT_TRUE(launch::eventually(
      [&] {
        std::ifstream steps(scratch.at("steps.json"));
        return steps.peek() != std::ifstream::traits_type::eof();
      },
      std::chrono::seconds(60)));
  const std::size_t one = mebibytesOf(process.worker(0), "Rss");
  const std::size_t both =
      mebibytesOf(process.worker(0), "Pss") + mebibytesOf(process.worker(1), "Pss");
  EXPECT_GT(one, 305);
  EXPECT_GT(both, 305);
  EXPECT_LT(static_cast<double>(both), 1.2 * static_cast<double>(one));
  kill(process.pid(), SIGTERM);
  EXPECT_NE(process.wait(), 0);
  EXPECT_TRUE(process.gone());
}

}  // namespace
}  // namespace colla::train
