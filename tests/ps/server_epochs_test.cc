// Servers whose workers change from one epoch to the next, while what they hold stays.
#include <gtest/gtest.h>

#include "ps/crew.h"
#include "ps/reference.h"

namespace colla::ps {
namespace {

using test::Wire;

class EpochsTest : public ::testing::TestWithParam<Wire> {};
INSTANTIATE_TEST_SUITE_P(Wires, EpochsTest,
                         ::testing::Values(Wire::kShared, Wire::kMessages, Wire::kShm,
                                           Wire::kTcpPlain),
                         [](const auto& wire) { return toString(wire.param); });

// Three workers, then two of them, then four, with ranks that change: the bits of one that has
// everything and never stops.
TEST_P(EpochsTest, OtherWorkersGoOnWithTheSameBits) {
  constexpr int kSlices = 6;
  constexpr std::int64_t kSteps = 3;  // Of each epoch.
  const Crew::Epochs epochs = {{0, 1, 2}, {2, 0}, {3, 1, 0, 2}};
  Crew crew(GetParam(), 4, 2);
  crew.runEpochs(epochs, [&](int epoch, int rank, const ClientOptions& options) {
    Declaration declaration = declarationFor(entries(), options.workers, 2, kSlices);
    declaration.optimizer = *parseOptimizer("adam");
    declaration.clipNorm = 2.5;
    auto client = Client::connect(options, declaration);
    ASSERT_TRUE(client.ok()) << client.status();
    Reference reference(declaration.optimizer, kSlices, declaration.clipNorm);
    const std::int64_t before = epoch * kSteps;
    for (std::int64_t step = 0; step < before; ++step) reference.step(step, factorAt(step));
    Trainee trainee(**client, rank, kSlices, options.workers);
    trainee.begin(reference.model, epoch == 0 ? -1 : before);
    EXPECT_TRUE(sameBits(entryOf<float>(**client, 0), reference.model.weight)) << epoch;
    for (std::int64_t step = before; step < before + kSteps; ++step) {
      const auto turn = trainee.step(step);
      ASSERT_TRUE(turn.ok()) << turn.status();
      EXPECT_EQ(turn->step, step + 1);
      reference.step(step, factorAt(step));
      EXPECT_TRUE(sameBits(entryOf<float>(**client, 0), reference.model.weight)) << step;
      EXPECT_TRUE(sameBits(tableOf(**client), reference.model.table)) << step;
    }
    if (rank == 0) {
      const auto statistics = (*client)->statistics();
      ASSERT_TRUE(statistics.ok());
      EXPECT_EQ(statistics->taken, epoch == 0 ? 9 : epoch == 1 ? 15 : 27);
    }
    const bool last = epoch + 1 == static_cast<int>(epochs.size());
    EXPECT_TRUE((last ? (*client)->leave() : (*client)->leaveEpoch()).ok());
  });
  for (const Status& status : crew.servers()) EXPECT_TRUE(status.ok()) << status;
}

// Whatever is not the same training: a different optimizer, or workers that left for something
// else.
TEST(EpochsRefusalTest, NobodyGoesOnWithADifferentModel) {
  Crew crew(Wire::kShared, 1, 2);
  crew.run([&](int) {
    for (const bool leavesEpoch : {true, false, true}) {
      Declaration declaration = declarationFor(entries(), 1, 2, 2);
      declaration.optimizer = *parseOptimizer(leavesEpoch ? "adam" : "sgd");
      auto client = Client::connect(crew.client(0), declaration);
      ASSERT_TRUE(client.ok()) << client.status();
      EXPECT_EQ((*client)->resume().status().code(), StatusCode::kInvalidArgument);
      const Reference reference(declaration.optimizer, 2, 0);
      Trainee trainee(**client, 0, 2, 1);
      trainee.begin(reference.model);
      ASSERT_TRUE(trainee.step(0).ok());
      EXPECT_TRUE((leavesEpoch ? (*client)->leaveEpoch() : (*client)->leave(true)).ok());
    }
    auto client = Client::connect(crew.client(0), declarationFor(entries(), 1, 2, 1));
    ASSERT_TRUE(client.ok()) << client.status();
    EXPECT_TRUE((*client)->leave().ok());
  });
  for (const Status& status : crew.servers()) EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace colla::ps
