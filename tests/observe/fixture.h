// A folder of its own for each test, and a clock that moves when told to.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "base/deadline.h"
#include "support/scratch.h"

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
  const Scratch scratch_;
  const std::string& folder_ = scratch_.path();
  TestClock clock_;
};

}  // namespace colla::observe
