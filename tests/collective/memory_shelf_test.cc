#include "collective/memory_shelf.h"

#include <gtest/gtest.h>

#include "support/ranks.h"

namespace colla::collective {
namespace {

// A job whose workers never change keeps little of what it has freed.
TEST(MemoryShelfTest, KeepsSomeMegabytesAtTheMost) {
  const auto transports = test::makeTransports(test::Wire::kShared, 1);
  transport::SharedMemory& memory = *transports[0]->sharedMemory();
  const auto kept = [&](int regions, std::size_t bytes) {
    MemoryShelf shelf;
    for (int i = 0; i < regions; ++i) {
      auto region = memory.allocate(bytes);
      EXPECT_TRUE(region.ok()) << region.status();
      shelf.giveBack(*std::move(region));
    }
    return shelf.takeResting().size();
  };
  EXPECT_EQ(kept(3, std::size_t{1} << 20), 3U);
  EXPECT_EQ(kept(40, 4096), 16U);
  EXPECT_EQ(kept(3, std::size_t{8} << 20), 2U);
  EXPECT_EQ(kept(2, std::size_t{17} << 20), 0U);
}

TEST(MemoryShelfTest, TakesWhatFitsFromStockAlone) {
  const auto transports = test::makeTransports(test::Wire::kShared, 1);
  transport::SharedMemory& memory = *transports[0]->sharedMemory();
  MemoryShelf shelf;
  auto region = shelf.take(memory, 4096);
  ASSERT_TRUE(region.ok()) << region.status();
  region->bytes[5] = std::byte{1};
  const std::byte* const place = region->bytes.data();
  shelf.giveBack(*std::move(region));
  EXPECT_NE(shelf.take(memory, 4096)->bytes.data(), place);  // It rests.
  shelf.stock(shelf.takeResting());
  EXPECT_NE(shelf.take(memory, 8192)->bytes.data(), place);
  const auto again = shelf.takeZeroed(memory, 4096);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->bytes.data(), place);
  EXPECT_EQ(again->bytes[5], std::byte{0});
}

}  // namespace
}  // namespace colla::collective
