#include "launch/host_slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace colla::launch {
namespace {

using ::testing::HasSubstr;

TEST(HostSlotsTest, ListsAndFilesSayTheSame) {
  for (const auto& hosts : {parseHostSlots("a:2,b"),
                            parseHostFile("# two hosts\na slots=2  # the first\n\n b \n", "f")}) {
    ASSERT_TRUE(hosts.ok()) << hosts.status();
    ASSERT_EQ(hosts->size(), 2U);
    EXPECT_EQ((*hosts)[0].name, "a");
    EXPECT_EQ((*hosts)[0].slots, 2);
    EXPECT_EQ((*hosts)[1].name, "b");
    EXPECT_EQ((*hosts)[1].slots, 1);
  }
}

// So many that their sum would be no number any more are refused one by one.
TEST(HostSlotsTest, RefusesWhatIsNoNumberOfSlots) {
  for (const char* text : {"a:0", "a:-1", "a:x", "a:", "a:2147483647", "a:99999999999"}) {
    const auto hosts = parseHostSlots(text);
    EXPECT_THAT(std::string(hosts.status().message()), HasSubstr("slots above 0")) << text;
  }
  EXPECT_FALSE(parseHostSlots("a:1,,b:1").ok());
  EXPECT_FALSE(parseHostSlots(":2").ok());
  EXPECT_FALSE(parseHostFile("a slots=2 b", "hosts").ok());
  EXPECT_FALSE(parseHostFile("a slots=2147483647", "hosts").ok());
}

}  // namespace
}  // namespace colla::launch
