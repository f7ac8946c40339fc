#include "ps/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ps/declaration.h"
#include "ps/order.h"
#include "ps/pushed_rows.h"
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
  declaration.entries[0].optimizer = RmsProp{.lr = 1.0 / 7, .centered = true};
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
  Declaration declaration;
  declaration.entries = {{.name = "a", .shape = {2, 3}}};
  declaration.firstSlices = {0, 1};
  const auto whole = encode(declaration);
  ASSERT_TRUE(decodeDeclaration(whole).ok());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(decodeDeclaration(std::span(whole).first(size)).ok()) << size;
  }
  declaration.entries[0].kind = static_cast<Kind>(5);
  EXPECT_FALSE(decodeDeclaration(encode(declaration)).ok());
}

TEST(WireTest, AsksAndAnswersComeBackAsTheyWere) {
  const Ask ask{.topic = Topic::kFetchRows,
                .number = -2,
                .slot = 3,
                .count = 4,
                .step = 5,
                .first = 6,
                .bytes = 7,
                .place = {.region = 8, .offset = 9}};
  const auto bytes = encode(ask);
  ASSERT_EQ(bytes.size(), kAskBytes);
  EXPECT_EQ(encode(decodeAsk(bytes)), bytes);
  EXPECT_EQ(decodeAsk(bytes).number, -2);
  EXPECT_EQ(decodeAsk(bytes).place.offset, 9u);
  const Answer answer{.code = StatusCode::kTimeout,
                      .stop = Stop::kInterrupted,
                      .dropped = true,
                      .step = 2,
                      .late = 3,
                      .behind = 4,
                      .scale = 0.1,
                      .samples = 6,
                      .bytes = 7};
  const auto head = encode(answer);
  ASSERT_EQ(head.size(), kAnswerBytes);
  EXPECT_EQ(encode(decodeAnswer(head)), head);
  EXPECT_EQ(decodeAnswer(head).scale, 0.1);
  EXPECT_TRUE(decodeAnswer(head).dropped);
}

TEST(WireTest, WhatIsCutShortIsRefused) {
  const Finish finish{.share = 0.25,
                      .plateau = 0.5,
                      .snapshotAt = 100,
                      .stop = Stop::kRequested,
                      .present = {1, 0},
                      .squares = {{3, 0.5}}};
  const auto whole = encode(finish);
  const auto back = decodeFinish(whole, 2);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->share, 0.25);
  EXPECT_EQ(back->plateau, 0.5);
  EXPECT_EQ(back->snapshotAt, 100);
  EXPECT_EQ(back->stop, Stop::kRequested);
  EXPECT_THAT(back->squares, ElementsAre(std::pair(3, 0.5)));
  EXPECT_FALSE(decodeFinish(whole, 3).ok());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(decodeFinish(std::span(whole).first(size), 2).ok()) << size;
  }
  Order order;
  order.kind = Order::Kind::kApply;
  order.take = {1, 2};
  order.release = {{.worker = 3, .late = 4, .behind = 5, .dropped = true}};
  order.terms = {.present = {1, 0}, .factor = 0.1, .gradScale = 0.2, .meanScale = 0.3};
  order.step = 7;
  order.samples = 8;
  order.scale = 0.9;
  order.stop = Stop::kRequested;
  order.reason = "why";
  const auto bytes = encode(order);
  const auto received = decodeOrder(bytes, 4, 2);
  ASSERT_TRUE(received.ok());
  EXPECT_THAT(received->take, ElementsAre(1, 2));
  EXPECT_EQ(received->release[0].behind, 5);
  EXPECT_EQ(received->terms.meanScale, 0.3);
  EXPECT_EQ(received->reason, "why");
  EXPECT_EQ(encode(*received), bytes);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decodeOrder(std::span(bytes).first(size), 4, 2).ok()) << size;
  }
  EXPECT_FALSE(decodeOrder(bytes, 3, 2).ok());  // There is no worker 3.
  EXPECT_FALSE(decodeOrder(bytes, 4, 3).ok());
}

std::vector<std::byte> written(std::span<const collective::Rows> leaves, std::size_t width) {
  RowsWriter writer(leaves.size(), width);
  for (std::size_t i = 0; i < leaves.size(); ++i)
    writer.add(i, leaves[i], 0, leaves[i].rows.size());
  std::vector<std::byte> bytes(writer.bytes());
  writer.write(bytes);
  return bytes;
}

TEST(WireTest, RowsAreCheckedBeforeTheyAreUsed) {
  std::vector<std::byte> bytes;
  const auto decoded = [&](const collective::Rows& rows) {
    bytes = written(std::span(&rows, 1), 2);
    return decodeRows(bytes, 1, 10, 2);
  };
  const auto good = decoded({{0, 9}, {1, 2, 3, 4}});
  ASSERT_TRUE(good.ok());
  EXPECT_THAT(good->at(0).rows, ElementsAre(0, 9));
  EXPECT_THAT(good->at(0).values, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(std::string(decoded({{10}, {1, 2}}).status().message()), HasSubstr("row 10"));
  EXPECT_THAT(std::string(decoded({{-1}, {1, 2}}).status().message()), HasSubstr("row -1"));
  EXPECT_FALSE(decoded({{3, 3}, {1, 2, 3, 4}}).ok());
}

// Rows of an odd length, and parts of a leaf that were added one after another.
TEST(WireTest, RowsOfSeveralLeavesComeBackWhole) {
  const std::vector<collective::Rows> leaves = {
      {{1, 4, 7}, {1, 2, 3, 4, 5, 6, 7, 8, 9}}, {{}, {}}, {{2}, {10, 11, 12}}};
  RowsWriter writer(3, 3);
  EXPECT_TRUE(writer.empty());
  writer.add(0, leaves[0], 0, 1);
  writer.add(0, leaves[0], 2, 3);
  writer.add(2, leaves[2], 0, 1);
  EXPECT_FALSE(writer.empty());
  std::vector<std::byte> bytes(writer.bytes());
  writer.write(bytes);
  const auto read = decodeRows(bytes, 3, 8, 3);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(read->at(0).rows, ElementsAre(1, 7));
  EXPECT_THAT(read->at(0).values, ElementsAre(1, 2, 3, 7, 8, 9));
  EXPECT_TRUE(read->at(1).rows.empty());
  EXPECT_THAT(read->at(2).values, ElementsAre(10, 11, 12));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decodeRows(std::span(bytes).first(size), 3, 8, 3).ok()) << size;
  }
  EXPECT_FALSE(decodeRows(bytes, 2, 8, 3).ok());
  EXPECT_FALSE(decodeRows(bytes, 3, 8, 2).ok());
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
