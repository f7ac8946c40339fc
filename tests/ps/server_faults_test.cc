// What a server does with workers that die, come late or talk nonsense.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <future>
#include <limits>

#include "ps/crew.h"

namespace colla::ps {
namespace {

using namespace std::chrono_literals;
using test::Wire;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<Entry> oneWeight() { return {{.name = "weight", .shape = {4}}}; }

std::unique_ptr<Client> connect(Crew& crew, int rank, const Declaration& declaration) {
  auto client = Client::connect(crew.client(rank), declaration);
  EXPECT_TRUE(client.ok()) << client.status();
  if (!client.ok()) return nullptr;
  if (rank == 0) {
    EXPECT_TRUE((*client)->fill(0, -1, (*client)->area().first(16)).ok());
    EXPECT_TRUE((*client)->start(0, std::vector<std::int64_t>{0}).ok());
  }
  EXPECT_TRUE((*client)->begin().ok());
  return *std::move(client);
}

Result<Turn> step(Client& client, float gradient = 1) {
  std::fill_n(reinterpret_cast<float*>(client.partial(0).data()), 4, gradient);
  client.push(0);
  return client.finish({.share = 0.5, .present = {1}});
}

std::string messageOf(const Status& status) { return std::string(status.message()); }

class ServerFaultsTest : public ::testing::TestWithParam<Wire> {};
INSTANTIATE_TEST_SUITE_P(Wires, ServerFaultsTest,
                         ::testing::Values(Wire::kShared, Wire::kShm, Wire::kTcpPlain),
                         [](const auto& wire) { return toString(wire.param); });

TEST_P(ServerFaultsTest, SyncStopsWithTheNameOfALostWorker) {
  Crew crew(GetParam(), 2, 2);
  const Declaration declaration = declarationFor(oneWeight(), 2, 2, 2);
  crew.run([&](int rank) {
    auto client = connect(crew, rank, declaration);
    ASSERT_NE(client, nullptr);
    ASSERT_TRUE(step(*client).ok());
    if (rank == 1) {
      client.reset();
      return crew.die(1);
    }
    const auto turn = step(*client);
    EXPECT_THAT(messageOf(turn.status()), AllOf(HasSubstr("rank 1"), HasSubstr("--backup")));
    EXPECT_TRUE(client->leave().ok());
  });
  EXPECT_THAT(messageOf(crew.servers()[0]), HasSubstr("rank 1"));
}

// What a policy makes of a loss does not depend on the wire.
TEST(ServerPolicyTest, AsyncGoesOnWithoutALostWorker) {
  Crew crew(Wire::kShared, 2, 1);
  Declaration declaration = declarationFor(oneWeight(), 2, 1, 2);
  declaration.policy.consistency = Consistency::kAsync;
  std::promise<void> died;
  crew.run([&](int rank) {
    auto client = connect(crew, rank, declaration);
    ASSERT_NE(client, nullptr);
    if (rank == 1) {
      client.reset();
      crew.die(1);
      return died.set_value();
    }
    died.get_future().wait();
    for (int i = 0; i < 3; ++i) {
      const auto turn = step(*client);
      ASSERT_TRUE(turn.ok()) << turn.status();
      EXPECT_EQ(turn->step, i + 1);
    }
    EXPECT_TRUE(client->leave().ok());
  });
  EXPECT_TRUE(crew.servers()[0].ok()) << crew.servers()[0];
}

TEST(ServerPolicyTest, SspRetiresTheClockOfALostWorker) {
  Crew crew(Wire::kShared, 2, 1);
  Declaration declaration = declarationFor(oneWeight(), 2, 1, 2);
  declaration.policy.consistency = Consistency::kSsp;
  declaration.policy.staleness = 1;
  crew.run([&](int rank) {
    auto client = connect(crew, rank, declaration);
    ASSERT_NE(client, nullptr);
    if (rank == 1) {
      client.reset();
      return crew.die(1);
    }
    // Held at two steps ahead, until the other is known to be lost.
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(step(*client).ok());
    EXPECT_TRUE(client->leave().ok());
  });
}

TEST(ServerPolicyTest, AWorkerThatNeverComesIsNamedAtTheDeadline) {
  Crew crew(Wire::kShared, 2, 1, 300ms);
  const Declaration declaration = declarationFor(oneWeight(), 2, 1, 2);
  std::promise<void> given;
  auto givenUp = given.get_future().share();
  crew.run([&](int rank) {
    auto client = connect(crew, rank, declaration);
    ASSERT_NE(client, nullptr);
    if (rank == 1) {
      givenUp.wait();
    } else {
      EXPECT_THAT(messageOf(step(*client).status()),
                  AllOf(HasSubstr("rank 1"), HasSubstr("waited")));
      given.set_value();
    }
    EXPECT_TRUE(client->leave().ok());
  });
}

TEST_P(ServerFaultsTest, ALostServerIsNamed) {
  Crew crew(GetParam(), 1, 1);
  const Declaration declaration = declarationFor(oneWeight(), 1, 1, 1);
  auto options = crew.client(0);
  crew.run([&](int) {
    auto client = connect(crew, 0, declaration);
    ASSERT_NE(client, nullptr);
    EXPECT_TRUE(client->leave().ok());
  });
  crew.die(1);
  const auto client = Client::connect(options, declaration);
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.status().code(), StatusCode::kPeerLost);
  EXPECT_EQ(client.status().peer(), 1);
}

TEST(ServerRefusalTest, NumbersThatAreNotFiniteNeverReachTheParameters) {
  Crew crew(Wire::kShared, 2, 1);
  Declaration declaration = declarationFor(oneWeight(), 2, 1, 2);
  declaration.policy.consistency = Consistency::kAsync;
  declaration.optimizer = Sgd{.lr = 1};
  std::promise<void> refused;
  auto wasRefused = refused.get_future().share();
  crew.run([&](int rank) {
    auto client = connect(crew, rank, declaration);
    ASSERT_NE(client, nullptr);
    if (rank == 1) {
      const auto turn = step(*client, std::numeric_limits<float>::quiet_NaN());
      EXPECT_THAT(messageOf(turn.status()),
                  AllOf(HasSubstr("\"weight\""), HasSubstr("not finite"), HasSubstr("step 1")));
      refused.set_value();
    } else {
      wasRefused.wait();
      const auto turn = step(*client, 0.5f);
      ASSERT_TRUE(turn.ok()) << turn.status();
      EXPECT_EQ(turn->step, 1);
      EXPECT_EQ(reinterpret_cast<const float*>(client->area().data())[2], -1.0f);
    }
    EXPECT_TRUE(client->leave().ok());
  });
  EXPECT_TRUE(crew.servers()[0].ok());
}

// Worker 1's rows are refused; its next step brings none, and the other worker's are applied.
TEST(ServerRefusalTest, NothingOfARefusedStepComesBackInTheNext) {
  Crew crew(Wire::kShared, 2, 1);
  Declaration declaration =
      declarationFor({{.name = "table", .kind = Kind::kRows, .shape = {10, 2}}}, 2, 1, 2);
  declaration.optimizer = Sgd{.lr = 1};
  crew.run([&](int rank) {
    auto client = Client::connect(crew.client(rank), declaration);
    ASSERT_TRUE(client.ok()) << client.status();
    if (rank == 0) {
      ASSERT_TRUE((*client)->start(0, std::vector<std::int64_t>{0}).ok());
    }
    ASSERT_TRUE((*client)->begin().ok());
    const collective::Rows rows{{3}, {1, rank == 0 ? 2 : std::numeric_limits<float>::infinity()}};
    EXPECT_TRUE((*client)->pushRows(0, std::span(&rows, 1)).ok());
    if (rank == 1) {
      EXPECT_THAT(messageOf((*client)->finish({.share = 0.5, .present = {1}}).status()),
                  AllOf(HasSubstr("\"table\""), HasSubstr("not finite in row 3")));
    }
    const std::uint8_t brings = rank == 0 ? 1 : 0;
    const auto turn = (*client)->finish({.share = 0.5, .present = {brings}});
    ASSERT_TRUE(turn.ok()) << turn.status();
    std::vector<float> values(2);
    ASSERT_TRUE((*client)->pullRows(0, std::vector<std::int64_t>{3}, values).ok());
    EXPECT_THAT(values, ::testing::ElementsAre(-1, -2));
    EXPECT_TRUE((*client)->leave().ok());
  });
}

TEST(ServerRefusalTest, AStepWithoutItsGradients) {
  Crew crew(Wire::kMessages, 1, 1);
  crew.run([&](int rank) {
    auto client = connect(crew, rank, declarationFor(oneWeight(), 1, 1, 1));
    ASSERT_NE(client, nullptr);
    EXPECT_THAT(messageOf(client->finish({.present = {1}}).status()), HasSubstr("0 of 1 blocks"));
    EXPECT_TRUE(step(*client).ok());
    EXPECT_TRUE(client->leave().ok());
  });
}

TEST(ServerRefusalTest, AnotherModelIsRefused) {
  Crew crew(Wire::kShared, 2, 1);
  const Declaration declaration = declarationFor(oneWeight(), 2, 1, 2);
  std::promise<void> declared;
  auto isDeclared = declared.get_future().share();
  crew.run([&](int rank) {
    Declaration mine = declaration;
    if (rank == 1) {
      isDeclared.wait();
      mine.entries[0].shape = {5};
    }
    const auto client = Client::connect(crew.client(rank), mine);
    if (rank == 0) {
      ASSERT_TRUE(client.ok());
      declared.set_value();
      EXPECT_TRUE((*client)->leave().ok());
    } else {
      EXPECT_THAT(messageOf(client.status()), HasSubstr("rank 1 declares another model"));
      crew.die(1);
    }
  });
}

TEST(ServerRefusalTest, RowsOutsideTheTable) {
  Crew crew(Wire::kShared, 1, 1);
  const Declaration declaration =
      declarationFor({{.name = "table", .kind = Kind::kRows, .shape = {10, 2}}}, 1, 1, 1);
  crew.run([&](int rank) {
    auto client = Client::connect(crew.client(rank), declaration);
    ASSERT_TRUE(client.ok()) << client.status();
    ASSERT_TRUE((*client)->start(0, std::vector<std::int64_t>{0}).ok());
    ASSERT_TRUE((*client)->begin().ok());
    std::vector<float> values(2);
    EXPECT_THAT(messageOf((*client)->pullRows(0, std::vector<std::int64_t>{10}, values)),
                AllOf(HasSubstr("row 10"), HasSubstr("\"table\"")));
    // It goes on.
    EXPECT_TRUE((*client)->pullRows(0, std::vector<std::int64_t>{9}, values).ok());
    EXPECT_TRUE((*client)->leave().ok());
  });
}

}  // namespace
}  // namespace colla::ps
