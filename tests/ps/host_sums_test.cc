// Workers that add their gradients with those of their host before they push: the bits of one
// worker that has everything, and fewer bytes.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>

#include "ps/crew.h"
#include "ps/reference.h"

namespace colla::ps {
namespace {

using test::Wire;

struct Spread {
  std::vector<int> hosts;  // By worker.
  int servers;
  int slices;
  const char* optimizer = "adam";
  double clip = 0;
  Wire inside = Wire::kShared;
  Wire between = Wire::kMessages;
};

std::string spreadName(const ::testing::TestParamInfo<Spread>& info) {
  const Spread& s = info.param;
  std::string name = "hosts";
  for (const int host : s.hosts) name += "_" + std::to_string(host);
  return name + "_" + std::to_string(s.servers) + "_servers_" + std::to_string(s.slices) +
         "_slices_" + toString(s.inside) + "_" + toString(s.between) + (s.clip > 0 ? "_clip" : "");
}

// Runs some steps and compares them with the reference; returns the bytes that workers sent to
// servers.
std::size_t trainOn(const Spread& s, bool together) {
  const int workers = static_cast<int>(s.hosts.size());
  std::atomic<std::size_t> pushed = 0;
  Crew crew(s.hosts, s.inside, s.between, s.servers, [&](int from, int to, std::size_t bytes) {
    if (from < workers && to >= workers) pushed += bytes;
  });
  Declaration declaration = declarationFor(entries(), workers, s.servers, s.slices);
  declaration.layout.blockBytes = 1;  // As many blocks as there can be.
  declaration.layout.partitions = 5;
  declaration.optimizer = *parseOptimizer(s.optimizer);
  declaration.clipNorm = s.clip;
  if (together) declaration.hosts = s.hosts;
  crew.run([&](int rank) {
    auto client = Client::connect(crew.client(rank), declaration);
    ASSERT_TRUE(client.ok()) << client.status();
    Reference reference(declaration.optimizer, s.slices, s.clip);
    Trainee trainee(**client, rank, s.slices, workers);
    trainee.begin(reference.model);
    for (std::int64_t step = 0; step < 4; ++step) {
      const auto turn = trainee.step(step);
      ASSERT_TRUE(turn.ok()) << turn.status();
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
  return pushed;
}

class HostSumsTest : public ::testing::TestWithParam<Spread> {};

TEST_P(HostSumsTest, HaveTheBitsOfOneWorkerThatHasEverything) { trainOn(GetParam(), true); }

INSTANTIATE_TEST_SUITE_P(
    Spreads, HostSumsTest,
    ::testing::Values(Spread{{0, 0, 1, 1}, 1, 4}, Spread{{0, 0, 1, 1}, 2, 4, "momentum", 2.5},
                      Spread{{0, 0, 1}, 2, 5, "adagrad"}, Spread{{0, 1, 1, 1}, 3, 7, "rmsprop", 1},
                      Spread{{0, 1, 0, 1}, 2, 6}, Spread{{0, 1, 1, 0, 2}, 2, 9},
                      Spread{{0, 0, 0, 1, 1, 1}, 1, 6, "sgd"},
                      Spread{{0, 0, 1, 1}, 2, 4, "adam", 0, Wire::kShm, Wire::kTcpPlain},
                      Spread{{0, 0, 1}, 1, 3, "adam", 1, Wire::kShm, Wire::kTcp}),
    spreadName);

// Two workers on each host have one partial sum together, where their slices are aligned. Asks and
// other messages stay as they were, so the whole is a little more than half.
TEST(HostSumsLimitsTest, SendHalfOfTheBytesOfTwoWorkersOnEachHost) {
  const Spread spread{{0, 0, 1, 1}, 2, 4};
  const std::size_t alone = trainOn(spread, false);
  const std::size_t together = trainOn(spread, true);
  const Model model;
  const std::size_t dense = (model.weight.size() + model.bias.size()) * sizeof(float);
  EXPECT_GT(alone, 4 * 4 * dense);  // Four workers, four steps.
  EXPECT_LT(together, alone * 55 / 100);
}

TEST(HostSumsLimitsTest, AreForPoliciesThatTakeEveryWorker) {
  const std::vector<int> hosts = {0, 0, 1};
  Crew crew(hosts, Wire::kShared, Wire::kMessages, 1);
  Declaration declaration = declarationFor(entries(), 3, 1, 3);
  declaration.hosts = hosts;
  declaration.policy.backup = 1;
  EXPECT_EQ(Client::connect(crew.client(0), declaration).status().code(),
            StatusCode::kInvalidArgument);
  declaration.policy.backup = 0;
  declaration.hosts = {0, 0};
  EXPECT_EQ(Client::connect(crew.client(0), declaration).status().code(),
            StatusCode::kInvalidArgument);
}

// Worker 1 dies before it has brought its gradients: its neighbour, which can't push, names it, and
// the worker of the other host learns of it from the server.
TEST(HostSumsLimitsTest, NameALostNeighbour) {
  const std::vector<int> hosts = {0, 0, 1};
  Crew crew(hosts, Wire::kShm, Wire::kTcpPlain, 1);
  Declaration declaration = declarationFor(entries(), 3, 1, 3);
  declaration.hosts = hosts;
  crew.run([&](int rank) {
    auto client = Client::connect(crew.client(rank), declaration);
    ASSERT_TRUE(client.ok()) << client.status();
    const Reference reference(declaration.optimizer, 3, 0);
    Trainee trainee(**client, rank, 3, 3);
    trainee.begin(reference.model);
    if (rank == 1) {
      client->reset();
      return crew.die(1);
    }
    const Status status = trainee.step(0).status();
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.message().find("rank 1"), std::string_view::npos) << status;
    client->reset();
    crew.die(rank);
  });
}

// A worker that is late, and not lost, is named at the deadline.
TEST(HostSumsLimitsTest, NameALateNeighbour) {
  const std::vector<int> hosts = {0, 0, 1, 1};
  Crew crew(hosts, Wire::kShared, Wire::kMessages, 1, nullptr, std::chrono::milliseconds(300));
  Declaration declaration = declarationFor(entries(), 4, 1, 4);
  declaration.hosts = hosts;
  std::barrier<> named(4);
  crew.run([&](int rank) {
    auto client = Client::connect(crew.client(rank), declaration);
    ASSERT_TRUE(client.ok()) << client.status();
    const Reference reference(declaration.optimizer, 4, 0);
    Trainee trainee(**client, rank, 4, 4);
    trainee.begin(reference.model);
    if (rank != 1) {
      const Status status = trainee.step(0).status();
      EXPECT_FALSE(status.ok());
      EXPECT_NE(status.message().find("rank 1"), std::string_view::npos) << status;
    }
    named.arrive_and_wait();
    client->reset();
    crew.die(rank);
  });
}

}  // namespace
}  // namespace colla::ps
