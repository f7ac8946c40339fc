#include "ps/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ps/squares.h"

namespace colla::ps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(WireTest, DeclarationsComeBackAsTheyWere) {
  Declaration declaration;
  declaration.entries = {{.name = "a \"quoted\" n\u00e4me", .shape = {2, 3}, .order = 4},
                         {.name = "t", .kind = Kind::kRows, .shape = {9, 1}}};
  declaration.layout = {.servers = 3, .partitions = 4};
  declaration.optimizer = Adam{.lr = 0.1, .beta1 = 1.0 / 3, .amsgrad = true};
  declaration.policy = {.consistency = Consistency::kAsync, .workers = 5, .maxStaleness = 6};
  declaration.clipNorm = 0.7;
  declaration.firstSlices = {0, 2, 5};
  const auto back = decodeDeclaration(encode(declaration));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->entries, declaration.entries);
  EXPECT_EQ(back->layout.partitions, 4);
  EXPECT_EQ(back->optimizer, declaration.optimizer);
  EXPECT_EQ(back->policy, declaration.policy);
  EXPECT_EQ(back->clipNorm, 0.7);
  EXPECT_THAT(back->firstSlices, ElementsAre(0, 2, 5));
  EXPECT_EQ(encode(*back), encode(declaration));
}

TEST(WireTest, DamagedDeclarationsAreRefused) {
  EXPECT_FALSE(decodeDeclaration("").ok());
  EXPECT_FALSE(decodeDeclaration("{}").ok());
  EXPECT_FALSE(decodeDeclaration(R"({"entries": 7})").ok());
}

TEST(WireTest, WhatIsCutShortIsRefused) {
  const Finish finish{.share = 0.25, .stop = true, .present = {1, 0}, .squares = {{3, 0.5}}};
  const auto whole = encode(finish);
  const auto back = decodeFinish(whole, 2);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->share, 0.25);
  EXPECT_TRUE(back->stop);
  EXPECT_THAT(back->squares, ElementsAre(std::pair(3, 0.5)));
  EXPECT_FALSE(decodeFinish(whole, 3).ok());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(decodeFinish(std::span(whole).first(size), 2).ok()) << size;
  }
  Order order;
  order.decision = {.take = {1, 2}, .drop = {{3, 4, 5}}, .release = {6}, .whole = false};
  order.failure = "why";
  const auto bytes = encode(order);
  const auto received = decodeOrder(bytes);
  ASSERT_TRUE(received.ok());
  EXPECT_THAT(received->decision.take, ElementsAre(1, 2));
  EXPECT_EQ(received->decision.drop[0].late, 5);
  EXPECT_FALSE(received->decision.whole);
  EXPECT_EQ(received->failure, "why");
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decodeOrder(std::span(bytes).first(size)).ok()) << size;
  }
}

TEST(WireTest, RowsAreCheckedBeforeTheyAreUsed) {
  const auto decoded = [](collective::Rows rows) {
    return decodeRows(encodeRows(std::span(&rows, 1)), 1, 10, 2);
  };
  const auto good = decoded({{0, 9}, {1, 2, 3, 4}});
  ASSERT_TRUE(good.ok());
  EXPECT_THAT(good->at(0).rows, ElementsAre(0, 9));
  EXPECT_THAT(std::string(decoded({{10}, {1, 2}}).status().message()), HasSubstr("row 10"));
  EXPECT_THAT(std::string(decoded({{-1}, {1, 2}}).status().message()), HasSubstr("row -1"));
  EXPECT_FALSE(decoded({{3, 3}, {1, 2, 3, 4}}).ok());
  EXPECT_FALSE(decoded({{3}, {1, 2, 3}}).ok());
}

TEST(SquaresTest, AreAddedInOrderWhoeverHasThem) {
  Squares first;
  Squares second;
  first.add(0, 4096, 1e-20);
  second.add(0, 0, 1);
  first.add(0, 8192, -1);
  second.add(7, 0, 3);
  Squares all;
  all.add(*Squares::decode(first.encode()));
  all.add(second);
  const auto sums = all.sums();
  EXPECT_EQ(sums.at(0), ((0.0 + 1) + 1e-20) + -1);
  EXPECT_EQ(sums.at(7), 3);
  EXPECT_FALSE(Squares::decode(std::vector<std::byte>(5)).ok());
}

}  // namespace
}  // namespace colla::ps
