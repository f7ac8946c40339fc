// Which wire a job's processes choose.
#include "job/connect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace colla::job {
namespace {

Result<Wire> wireFor(const std::map<std::string, std::string>& flags, bool oneHost) {
  Place place;
  place.size = 2;
  place.localSize = oneHost ? 2 : 1;
  place.store = oneHost ? "unix:@store" : "10.0.0.1:4000";
  const auto config = Config::load(flags, "", [](const char*) { return nullptr; });
  EXPECT_TRUE(config.ok()) << config.status();
  return chooseWire(*config, place);
}

TEST(ChooseWireTest, SharesMemoryOnOneHostAndEncryptsBetweenHosts) {
  for (const std::map<std::string, std::string>& flags :
       {std::map<std::string, std::string>{}, {{"transport", "auto"}}}) {
    EXPECT_EQ(*wireFor(flags, true), Wire::kShm);
    EXPECT_EQ(*wireFor(flags, false), Wire::kTcp);
  }
  for (const bool oneHost : {true, false}) {
    EXPECT_EQ(*wireFor({{"transport", "tcp"}}, oneHost), Wire::kTcp);
  }
}

// Nothing but its name leads to the wire that anybody can read.
TEST(ChooseWireTest, PlainIsAnExplicitChoice) {
  for (const bool oneHost : {true, false}) {
    EXPECT_EQ(*wireFor({{"transport", "tcp-plain"}}, oneHost), Wire::kTcpPlain);
    for (const char* other : {"auto", "tcp", "shm"}) {
      const auto wire = wireFor({{"transport", other}}, oneHost);
      EXPECT_TRUE(!wire.ok() || *wire != Wire::kTcpPlain) << other;
    }
  }
  EXPECT_THAT(
      wireFor({{"transport", "shm"}}, false).status().message(),
      ::testing::HasSubstr("--transport is \"shm\", but this job runs on more than one host"));
}

}  // namespace
}  // namespace colla::job
