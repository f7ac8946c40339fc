#include "named/fusion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace colla::named {
namespace {

using ::testing::ElementsAre;

Decision decided(std::string name, std::int64_t elements, DataType type = DataType::kFloat32) {
  Decision decision;
  decision.what.key.name = std::move(name);
  decision.what.type = type;
  decision.what.shape = {elements};
  return decision;
}

std::vector<std::string> namesIn(const std::vector<Decision>& decisions, std::size_t most) {
  std::vector<std::string> names;
  for (const Batch& batch : planFusion(decisions, most)) {
    std::string joined;
    for (const Decision& decision : batch) joined += decision.what.key.name;
    names.push_back(joined);
  }
  return names;
}

TEST(FusionTest, PacksUpToTheLimit) {
  // Of 64 bytes each, with what is left of the cache line.
  const std::vector<Decision> five = {decided("a", 16), decided("b", 1), decided("c", 16),
                                      decided("d", 16), decided("e", 0)};
  EXPECT_THAT(namesIn(five, 192), ElementsAre("abc", "de"));
  EXPECT_THAT(namesIn(five, 1 << 20), ElementsAre("abcde"));
  EXPECT_THAT(namesIn(five, 64), ElementsAre("a", "b", "c", "de"));
  EXPECT_THAT(namesIn(five, 0), ElementsAre("a", "b", "c", "d", "e"));
}

TEST(FusionTest, WhatIsTooLargeTravelsAlone) {
  EXPECT_THAT(namesIn({decided("a", 1), decided("B", 1000), decided("c", 1)}, 128),
              ElementsAre("ac", "B"));
}

TEST(FusionTest, OnlyWhatIsAlike) {
  const auto other = [](auto change) {
    Decision decision = decided("x", 1);
    change(decision.what);
    return decision;
  };
  const Decision unlike[] = {
      other([](Announcement& what) { what.type = DataType::kInt32; }),
      other([](Announcement& what) { what.op = Op::kMax; }),
      other([](Announcement& what) { what.op = Op::kAdasum; }),
      other([](Announcement& what) { what.prescale = 2; }),
      other([](Announcement& what) { what.postscale = 2; }),
      other([](Announcement& what) { what.key.set = 1; }),
      other([](Announcement& what) { what.kind = Kind::kAllgather; }),
      other([](Announcement& what) { what.kind = Kind::kReducescatter; }),
  };
  for (const Decision& decision : unlike) {
    EXPECT_THAT(namesIn({decided("a", 1), decision, decided("b", 1)}, 1 << 20),
                ElementsAre("ab", "x"));
  }
  // Two kinds that take turns, as in training with mixed types.
  EXPECT_THAT(namesIn({decided("a", 1), decided("1", 1, DataType::kFloat16), decided("b", 1),
                       decided("2", 1, DataType::kFloat16)},
                      1 << 20),
              ElementsAre("ab", "12"));
}

TEST(FusionTest, NothingPassesAChangeOfTheExchange) {
  Decision join;
  join.what.key = {kOwnSet, "|"};
  join.what.kind = Kind::kJoin;
  EXPECT_THAT(namesIn({decided("a", 1), join, decided("b", 1)}, 1 << 20),
              ElementsAre("a", "|", "b"));
  Decision error = decided("!", 1);
  error.error = {StatusCode::kMismatch, "no"};
  EXPECT_THAT(namesIn({decided("a", 1), error, decided("b", 1)}, 1 << 20),
              ElementsAre("a", "!", "b"));
}

}  // namespace
}  // namespace colla::named
