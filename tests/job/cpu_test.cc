#include "job/cpu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

namespace colla::job {
namespace {

using ::testing::HasSubstr;

// Libraries choose their code by it as well: mixed jobs would have bits of both.
TEST(CpuTest, FeaturesSayWhoMadeTheProcessor) {
  std::ostringstream said;
  said << std::ifstream("/proc/cpuinfo").rdbuf();
  const bool intel = said.str().find("GenuineIntel") != std::string::npos;
  const bool amd = said.str().find("AuthenticAMD") != std::string::npos;
  if (!intel && !amd) GTEST_SKIP() << "neither Intel's nor AMD's";
  EXPECT_THAT(cpuFeatures(), HasSubstr(intel ? " intel" : " amd"));
}

}  // namespace
}  // namespace colla::job
