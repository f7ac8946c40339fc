#include "train/exchange/table_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace colla::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Few rows, and as many servers as workers: a server has less to do than everybody who gathers all.
TEST(TableRoutesTest, ManyWorkersAndServersTakeServers) {
  EXPECT_EQ(chooseRoute({200'000, 256, 800}, 8, 8).route, TableRoute::kServers);
  EXPECT_EQ(chooseRoute({200'000, 256, 800}, 8, 2).route, TableRoute::kRows);
}

TEST(TableRoutesTest, FewWorkersExchangeRowsThemselves) {
  EXPECT_EQ(chooseRoute({200'000, 256, 800}, 2, 1).route, TableRoute::kRows);
  EXPECT_EQ(chooseRoute({200'000, 256, 800}, 3, 1).route, TableRoute::kRows);
}

// The share decides: nearly all rows are cheaper as a whole, which passes a link less than twice.
TEST(TableRoutesTest, ATableThatIsReadWholeGoesAsAWhole) {
  EXPECT_EQ(chooseRoute({1000, 64, 1000}, 8, 2).route, TableRoute::kWhole);
  EXPECT_EQ(chooseRoute({1000, 64, 900}, 3, 1).route, TableRoute::kWhole);
  EXPECT_EQ(chooseRoute({1000, 64, 500}, 3, 1).route, TableRoute::kRows);
  EXPECT_EQ(chooseRoute({1000, 64, 1000}, 8, 8).route, TableRoute::kWhole);
  EXPECT_EQ(chooseRoute({1000, 64, 500}, 8, 8).route, TableRoute::kServers);
}

TEST(TableRoutesTest, ATableThatNobodyReadStays) {
  EXPECT_EQ(chooseRoute({1000, 64, 0}, 3, 1).route, TableRoute::kServers);
  EXPECT_THAT(chooseRoute({1000, 64, 0}, 3, 1).reason, HasSubstr("no row"));
}

TEST(TableRoutesTest, OneWorkerExchangesNothing) {
  EXPECT_EQ(chooseRoute({1000, 64, 10}, 1, 1).route, TableRoute::kRows);
}

TEST(TableRoutesTest, TheReasonHasTheShareAndTheBytes) {
  // A row is 1,032 bytes: 6 of 800, 2 of 800, and 4/3 of 200,000 (of 1,028).
  EXPECT_THAT(chooseRoute({200'000, 256, 800}, 3, 1).reason,
              AllOf(HasSubstr("800 of 200000 rows (0.4 %)"), HasSubstr("4.95 MB"),
                    HasSubstr("1.65 MB"), HasSubstr("274 MB")));
}

}  // namespace
}  // namespace colla::train
