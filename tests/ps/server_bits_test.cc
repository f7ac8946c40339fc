// Servers against a reference of a few lines: the canonical sum over slices, the optimizer on whole
// tensors.
#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "optim/cases.h"
#include "ps/crew.h"
#include "ps/reference.h"

namespace colla::ps {
namespace {

using test::Wire;

struct Case {
  Wire wire;
  int workers;
  int servers;
  int slices;
  const char* optimizer;
  double clip;
  int threads = 1;  // Of a server.
};

std::string nameOf(const ::testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  return toString(c.wire) + "_" + std::to_string(c.workers) + "_workers_" +
         std::to_string(c.servers) + "_servers_" + std::to_string(c.slices) + "_slices_" +
         c.optimizer + (c.clip > 0 ? "_clip" : "") + "_" + std::to_string(c.threads) + "_threads";
}

class ServerBitsTest : public ::testing::TestWithParam<Case> {};

TEST_P(ServerBitsTest, SyncEqualsOneWorkerThatHasEverything) {
  const Case& c = GetParam();
  Crew crew(c.wire, c.workers, c.servers, std::chrono::seconds(20), c.threads);
  Declaration declaration = declarationFor(entries(), c.workers, c.servers, c.slices);
  declaration.layout.blockBytes = 1;  // As many blocks as there can be.
  declaration.optimizer = *parseOptimizer(c.optimizer);
  declaration.layout.partitions = c.servers > 1 ? 5 : 0;
  declaration.clipNorm = c.clip;
  crew.run([&](int rank) {
    auto client = Client::connect(crew.client(rank), declaration);
    ASSERT_TRUE(client.ok()) << client.status();
    Reference reference(declaration.optimizer, c.slices, c.clip);
    Trainee trainee(**client, rank, c.slices, c.workers);
    trainee.begin(reference.model);
    EXPECT_TRUE(sameBits(entryOf<float>(**client, 0), reference.model.weight));
    for (std::int64_t step = 0; step < 5; ++step) {
      const auto turn = trainee.step(step);
      ASSERT_TRUE(turn.ok()) << turn.status();
      EXPECT_EQ(turn->step, step + 1);
      EXPECT_EQ(turn->late, 0);
      EXPECT_FALSE(turn->dropped);
      reference.step(step, factorAt(step));
      EXPECT_TRUE(sameBits(entryOf<float>(**client, 0), reference.model.weight)) << step;
      EXPECT_TRUE(sameBits(entryOf<float>(**client, 2), reference.model.bias)) << step;
      EXPECT_TRUE(sameBits(entryOf<float>(**client, 3), reference.model.mean)) << step;
      EXPECT_TRUE(sameBits(entryOf<double>(**client, 4), reference.model.sums)) << step;
      EXPECT_EQ(entryOf<std::int64_t>(**client, 5)[0], step);
      EXPECT_TRUE(sameBits(tableOf(**client), reference.model.table)) << step;
    }
    EXPECT_TRUE((*client)->leave().ok());
  });
  for (const Status& status : crew.servers()) EXPECT_TRUE(status.ok()) << status;
}

INSTANTIATE_TEST_SUITE_P(Shapes, ServerBitsTest,
                         ::testing::Values(Case{Wire::kShared, 1, 1, 1, "sgd", 0},
                                           Case{Wire::kShared, 2, 1, 2, "adam", 0},
                                           Case{Wire::kShared, 2, 1, 2, "adam", 0, 3},
                                           Case{Wire::kShared, 3, 2, 5, "momentum", 0, 2},
                                           Case{Wire::kShared, 3, 3, 7, "adagrad", 2.5, 3},
                                           Case{Wire::kMessages, 2, 1, 2, "adam", 1},
                                           Case{Wire::kMessages, 2, 1, 2, "adam", 1, 4},
                                           Case{Wire::kMessages, 4, 2, 6, "rmsprop", 0, 2},
                                           Case{Wire::kShm, 3, 2, 4, "adam", 3, 2},
                                           Case{Wire::kShm, 2, 1, 3, "sgd", 0},
                                           Case{Wire::kTcp, 2, 2, 2, "adamw", 0, 2},
                                           Case{Wire::kTcpPlain, 3, 1, 5, "momentum", 1}),
                         nameOf);

// Any optimizers side by side, in one block and in partitions, with more slots and with fewer.
TEST(GroupsTest, EveryEntryHasTheBitsOfItsOwnOptimizer) {
  const std::vector<OptimizerOptions> all = optim::allOptions();
  for (unsigned seed = 0; seed < 12; ++seed) {
    std::mt19937 random(seed);
    const auto any = [&] { return all[random() % all.size()]; };
    const std::vector<OptimizerOptions> chosen = {any(), any(), any()};
    const double clip = seed % 2 == 0 ? 0 : 2.5;
    Crew crew(seed % 3 == 0 ? Wire::kMessages : Wire::kShared, 2, 2);
    Declaration declaration = declarationFor(entries(), 2, 2, 3);
    declaration.optimizer = chosen[2];  // The bias has none of its own.
    declaration.entries[0].optimizer = chosen[0];
    declaration.entries[1].optimizer = chosen[1];
    declaration.clipNorm = clip;
    crew.run([&](int rank) {
      auto client = Client::connect(crew.client(rank), declaration);
      ASSERT_TRUE(client.ok()) << client.status();
      Reference reference(chosen, 3, clip);
      Trainee trainee(**client, rank, 3, 2);
      trainee.begin(reference.model);
      for (std::int64_t step = 0; step < 4; ++step) {
        ASSERT_TRUE(trainee.step(step).ok());
        reference.step(step, factorAt(step));
        EXPECT_TRUE(sameBits(entryOf<float>(**client, 0), reference.model.weight)) << seed;
        EXPECT_TRUE(sameBits(entryOf<float>(**client, 2), reference.model.bias)) << seed;
        EXPECT_TRUE(sameBits(tableOf(**client), reference.model.table)) << seed;
      }
      EXPECT_TRUE((*client)->leave().ok());
    });
    for (const Status& status : crew.servers()) EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(SnapshotTest, IsOfOneStepWhileTrainingGoesOn) {
  Crew crew(Wire::kShared, 2, 2);
  Declaration declaration = declarationFor(entries(), 2, 2, 2);
  declaration.optimizer = *parseOptimizer("momentum");
  crew.run([&](int rank) {
    auto client = Client::connect(crew.client(rank), declaration);
    ASSERT_TRUE(client.ok()) << client.status();
    Reference reference(declaration.optimizer, 2, 0);
    Trainee trainee(**client, rank, 2, 2);
    trainee.begin(reference.model);
    for (std::int64_t step = 0; step < 3; ++step) {
      ASSERT_TRUE(trainee.step(step).ok());
      reference.step(step, factorAt(step));
    }
    std::optional<Snapshots> snapshots;
    if (rank == 0) {
      snapshots.emplace(crew.client(rank), (*client)->layout());
      const auto taken = snapshots->take();
      ASSERT_TRUE(taken.ok()) << taken.status();
      EXPECT_EQ(*taken, 3);
    }
    for (std::int64_t step = 3; step < 6; ++step) ASSERT_TRUE(trainee.step(step).ok());
    if (rank == 0) {
      const auto steps = snapshots->steps();
      ASSERT_TRUE(steps.ok());
      EXPECT_EQ(steps->at(0), 3);
      std::vector<float> weight(reference.model.weight.size());
      std::vector<float> momentum(weight.size());
      for (std::size_t block = 0; block < (*client)->layout().blocks().size(); ++block) {
        const Block& b = (*client)->layout().blocks()[block];
        std::vector<std::byte> values(b.bytes);
        std::vector<std::byte> slot(b.bytes);
        ASSERT_TRUE(snapshots->readBlock(static_cast<int>(block), -1, values).ok());
        ASSERT_TRUE(snapshots->readBlock(static_cast<int>(block), 0, slot).ok());
        for (const Piece& piece : b.pieces) {
          if (piece.entry != 0) continue;
          std::memcpy(weight.data() + piece.begin, values.data() + piece.offset - b.offset,
                      piece.count * sizeof(float));
          std::memcpy(momentum.data() + piece.begin, slot.data() + piece.offset - b.offset,
                      piece.count * sizeof(float));
        }
      }
      EXPECT_TRUE(sameBits(weight, reference.model.weight));
      const auto expected = reference.spans(0)[0];
      EXPECT_TRUE(sameBits(momentum, std::vector<float>(expected.begin(), expected.end())));
      std::vector<float> table(kRows * kWidth);
      for (std::size_t part = 0; part < (*client)->layout().partitions().size(); ++part) {
        const Partition& p = (*client)->layout().partitions()[part];
        ASSERT_TRUE(
            snapshots
                ->readRows(static_cast<int>(part), -1, 0,
                           std::span(table).subspan(p.begin * kWidth, (p.end - p.begin) * kWidth))
                .ok());
      }
      EXPECT_TRUE(sameBits(table, reference.model.table));
    }
    EXPECT_TRUE((*client)->leave().ok());
  });
  for (const Status& status : crew.servers()) EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace colla::ps
