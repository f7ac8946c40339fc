// The store that `colla run` serves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/environment.h"
#include "support/colla_process.h"

namespace colla::launch {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(RunStore, ProcessesMeetInIt) {
  CollaProcess colla({"run", "-np", "3", "--ps", "1", "--", COLLA_JOIN_PROBE});
  EXPECT_EQ(colla.wait(), 0) << colla.err();
  EXPECT_THAT(colla.out(), AllOf(HasSubstr("[worker 0] met 4\n"), HasSubstr("[worker 2] met 4\n"),
                                 HasSubstr("[ps 0] met 4\n")));
  EXPECT_EQ(colla.err(), "");
}

TEST(RunStore, TellsWhereEachProcessShouldBe) {
  CollaProcess colla({"run", "-np", "2", "--", COLLA_JOIN_PROBE, "absent"});
  EXPECT_EQ(colla.wait(), 0) << colla.err();
  EXPECT_THAT(colla.out(), HasSubstr("rank 1 on host " + job::hostName()));
}

TEST(RunStore, ProgramWithoutAPartForServersSaysSo) {
  CollaProcess colla({"run", "-np", "2", "--ps", "1", "--", COLLA_SELF_STARTER, "meet"});
  EXPECT_EQ(colla.wait(), 1);
  EXPECT_THAT(colla.err(), HasSubstr("[ps 0] self_starter: this program has no part for parameter "
                                     "servers, but was started as ps 0 of 1"));
  EXPECT_THAT(colla.err(), HasSubstr("colla run: ps 0 on host "));
  EXPECT_TRUE(colla.gone());
}

}  // namespace
}  // namespace colla::launch
