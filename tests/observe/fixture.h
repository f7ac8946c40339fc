// A folder of its own for each test, and a clock that moves when told to.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "base/deadline.h"

namespace colla::observe {

class TestClock : public Clock {
 public:
  TimePoint now() const override { return now_; }
  void advance(std::chrono::milliseconds time) { now_ += time; }

 private:
  TimePoint now_ = TimePoint{} + std::chrono::hours(1);
};

class ObserveTest : public ::testing::Test {
 protected:
  ObserveTest() : folder_(::testing::TempDir() + "observe-" + std::to_string(getpid())) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~ObserveTest() override { std::filesystem::remove_all(folder_); }

  static std::string contents(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    EXPECT_TRUE(file.is_open()) << path;
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const std::string folder_;
  TestClock clock_;
};

}  // namespace colla::observe
