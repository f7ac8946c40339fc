// What a policy decides, as workers see it: whose gradients a server takes, drops or applies at
// once.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <future>
#include <latch>

#include "ps/crew.h"

namespace colla::ps {
namespace {

using test::Wire;

// The gradients of workers 0 and 1, the first two, make the step; worker 2's come too late.
TEST(BackupTest, TheFirstOnesMakeTheStepAndTheRestIsDropped) {
  Crew crew(Wire::kShared, 3, 2);
  Declaration declaration = declarationFor({{.name = "weight", .shape = {4}}}, 3, 2, 3);
  declaration.optimizer = Sgd{.lr = 1};
  declaration.policy.backup = 1;
  std::promise<void> twoAreThrough;
  std::atomic<int> through = 0;
  auto through2 = twoAreThrough.get_future().share();
  std::latch begun(3);
  crew.run([&](int rank) {
    auto client = Client::connect(crew.client(rank), declaration);
    ASSERT_TRUE(client.ok()) << client.status();
    if (rank == 0) {
      ASSERT_TRUE((*client)->fill(0, -1, (*client)->area().first(16)).ok());
      ASSERT_TRUE((*client)->start(0, std::vector<std::int64_t>{0}).ok());
    }
    ASSERT_TRUE((*client)->begin().ok());
    begun.arrive_and_wait();  // All start from the same parameters.
    if (rank == 2) through2.wait();
    const auto gradient = reinterpret_cast<float*>((*client)->partial(0).data());
    std::fill_n(gradient, 4, static_cast<float>(rank + 1) / 3);  // Weighted by a third.
    (*client)->push(0);
    const auto turn = (*client)->finish({.share = 1.0 / 3, .present = {1}});
    ASSERT_TRUE(turn.ok()) << turn.status();
    EXPECT_EQ(turn->step, 1);
    EXPECT_EQ(turn->dropped, rank == 2);
    // The mean of 1 and 2, subtracted once.
    EXPECT_FLOAT_EQ(reinterpret_cast<const float*>((*client)->area().data())[3], -1.5f);
    if (++through == 2) twoAreThrough.set_value();
    if (rank == 2) {
      const auto statistics = (*client)->statistics();
      ASSERT_TRUE(statistics.ok());
      EXPECT_EQ(statistics->taken, 2);
      EXPECT_EQ(statistics->dropped, 1);
    }
    EXPECT_TRUE((*client)->leave().ok());
  });
}

TEST(AsyncTest, AppliesAsTheyComeAndCountsStaleness) {
  Crew crew(Wire::kShared, 2, 1);
  Declaration declaration = declarationFor({{.name = "weight", .shape = {4}}}, 2, 1, 2);
  declaration.optimizer = Sgd{.lr = 1};
  declaration.policy.consistency = Consistency::kAsync;
  std::promise<void> first;
  auto firstIsThrough = first.get_future().share();
  std::latch begun(2);
  crew.run([&](int rank) {
    auto client = Client::connect(crew.client(rank), declaration);
    ASSERT_TRUE(client.ok()) << client.status();
    if (rank == 0) {
      ASSERT_TRUE((*client)->fill(0, -1, (*client)->area().first(16)).ok());
      ASSERT_TRUE((*client)->start(0, std::vector<std::int64_t>{0}).ok());
    }
    auto turn = (*client)->begin();
    ASSERT_TRUE(turn.ok());
    begun.arrive_and_wait();  // Both start from the same parameters.
    if (rank == 1) firstIsThrough.wait();
    const int steps = rank == 0 ? 3 : 1;
    for (int i = 0; i < steps; ++i) {
      std::fill_n(reinterpret_cast<float*>((*client)->partial(0).data()), 4, 0.5f);
      (*client)->push(0);
      turn = (*client)->finish({.share = 0.5, .present = {1}});
      ASSERT_TRUE(turn.ok()) << turn.status();
    }
    EXPECT_EQ(turn->step, rank == 0 ? 3 : 4);
    EXPECT_EQ(turn->late, rank == 0 ? 0 : 3);
    // Each gradient counts as the mean of its own samples.
    EXPECT_FLOAT_EQ(reinterpret_cast<const float*>((*client)->area().data())[0],
                    rank == 0 ? -3.0f : -4.0f);
    if (rank == 1) {
      const auto statistics = (*client)->statistics();
      ASSERT_TRUE(statistics.ok());
      EXPECT_EQ(statistics->staleness, (Staleness{{0, 3}, {3, 1}}));
    }
    EXPECT_TRUE((*client)->leave().ok());
    if (rank == 0) first.set_value();
  });
}

// Servers end as soon as the last worker has left, so what one has told another may stay unread.
TEST(SspTest, ServersThatServeAgainKnowNothingOfBefore) {
  constexpr int kLives = 20;
  Crew crew(Wire::kShared, 2, 2);
  Declaration declaration =
      declarationFor({{.name = "a", .shape = {4}}, {.name = "b", .shape = {4}}}, 2, 2, 2);
  declaration.optimizer = Sgd{.lr = 1};
  declaration.policy.consistency = Consistency::kSsp;
  declaration.policy.staleness = 1;
  std::barrier together(2);
  crew.run([&](int rank) {
    for (int life = 0; life < kLives; ++life) {
      const auto client = Client::connect(crew.client(rank), declaration);
      ASSERT_TRUE(client.ok()) << client.status();
      const auto blocks = (*client)->layout().blocks();
      if (rank == 0) {
        for (int block = 0; block < static_cast<int>(blocks.size()); ++block) {
          const std::vector<std::byte> zeros(blocks[block].bytes);
          ASSERT_TRUE((*client)->fill(block, -1, zeros).ok());
        }
        ASSERT_TRUE((*client)->start(0, std::vector<std::int64_t>{0, 0}).ok());
      }
      ASSERT_TRUE((*client)->begin().ok());
      // Each life has more to say than the one before, and so would come to what that left.
      for (int step = 0; step < 4 + 2 * life; ++step) {
        for (int block = 0; block < static_cast<int>(blocks.size()); ++block) {
          (*client)->push(block);
        }
        const auto turn = (*client)->finish({.share = 0.5, .present = {1, 1}});
        ASSERT_TRUE(turn.ok()) << "life " << life << ", step " << step << ": " << turn.status();
      }
      ASSERT_TRUE((*client)->leave(/*again=*/life + 1 < kLives).ok());
      together.arrive_and_wait();
    }
  });
  for (const Status& status : crew.servers()) EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace colla::ps
