// What ranks tell each other survives the way, and damage is noticed.
#include "named/announcement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace colla::named {
namespace {

Announcement full() {
  Announcement what;
  what.key = {3, "layer.weight"};
  what.kind = Kind::kReducescatter;
  what.type = DataType::kBFloat16;
  what.shape = {4, 0, 1 << 20};
  what.op = Op::kAverage;
  what.prescale = 0.1;
  what.postscale = -3;
  what.root = 7;
  what.group = {"layer.bias", 2};
  return what;
}

TEST(AnnouncementTest, ReportsSurvive) {
  const Report report{{full(), Announcement()}, Status(StatusCode::kPeerLost, "gone", 3)};
  const auto read = decodeReport(encode(report));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->announcements, report.announcements);
  EXPECT_EQ(toString(read->end), toString(report.end));
  EXPECT_EQ(read->end.peer(), 3);
}

TEST(AnnouncementTest, OrdersSurvive) {
  Decision decision{full(), {1, 0, 5}, 9, Status(StatusCode::kMismatch, "no", 1), {0, 2}};
  Decision first, second;
  first.what.key.name = "one";
  second.what.key.name = "two";
  const Orders orders{{{decision}, {first, second}}, {}};
  const auto read = decodeOrders(encode(orders));
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->batches.size(), 2);
  ASSERT_EQ(read->batches[1].size(), 2);
  EXPECT_EQ(read->batches[1][0].what, first.what);
  EXPECT_EQ(read->batches[1][1].what, second.what);
  const Decision& last = read->batches[0][0];
  EXPECT_EQ(last.what, decision.what);
  EXPECT_EQ(last.rows, decision.rows);
  EXPECT_EQ(last.number, 9);
  EXPECT_EQ(toString(last.error), toString(decision.error));
  EXPECT_EQ(last.ranks, decision.ranks);
  EXPECT_TRUE(read->batches[1][0].error.ok());
  EXPECT_TRUE(read->end.ok());
}

TEST(AnnouncementTest, DamageIsNoticed) {
  const auto report = encode(Report{{full()}, {}});
  const auto orders = encode(Orders{{{Decision{full(), {1}, 0, {}, {}}}}, {}});
  for (std::size_t length = 0; length < report.size(); ++length) {
    EXPECT_FALSE(decodeReport(std::span(report).first(length)).ok()) << length;
  }
  for (std::size_t length = 0; length < orders.size(); ++length) {
    EXPECT_FALSE(decodeOrders(std::span(orders).first(length)).ok()) << length;
  }
  auto longer = report;
  longer.push_back(std::byte{0});
  EXPECT_EQ(decodeReport(longer).status().code(), StatusCode::kMismatch);
}

TEST(AnnouncementTest, NonsenseIsNotBelieved) {
  const auto refused = [](auto change) {
    Report report{{full()}, {}};
    change(report.announcements.front());
    return !decodeReport(encode(report)).ok();
  };
  EXPECT_FALSE(refused([](Announcement&) {}));
  EXPECT_TRUE(refused([](Announcement& what) { what.shape = {-1}; }));
  EXPECT_TRUE(refused([](Announcement& what) { what.shape = {1LL << 40, 1LL << 40}; }));
  EXPECT_TRUE(refused([](Announcement& what) { what.kind = static_cast<Kind>(9); }));
  EXPECT_TRUE(refused([](Announcement& what) { what.type = static_cast<DataType>(10); }));
  EXPECT_TRUE(refused([](Announcement& what) { what.op = static_cast<Op>(6); }));
  EXPECT_TRUE(refused([](Announcement& what) { what.key.set = kOwnSet; }));
  EXPECT_TRUE(refused([](Announcement& what) { what.kind = Kind::kJoin; }));
}

TEST(AnnouncementTest, OnlyWhatIsAlikeTravelsAsOne) {
  Decision sum;
  const auto refused = [&](auto change) {
    Decision other;
    change(other);
    return !decodeOrders(encode(Orders{{{sum, other}}, {}})).ok();
  };
  EXPECT_FALSE(refused([](Decision&) {}));
  EXPECT_TRUE(refused([](Decision& d) { d.what.type = DataType::kFloat64; }));
  EXPECT_TRUE(refused([](Decision& d) { d.what.op = Op::kMax; }));
  EXPECT_TRUE(refused([](Decision& d) { d.what.key.set = 2; }));
  EXPECT_TRUE(refused([](Decision& d) { d.what.kind = Kind::kBroadcast; }));
  EXPECT_TRUE(refused([](Decision& d) { d.error = {StatusCode::kMismatch, "no"}; }));
  EXPECT_FALSE(decodeOrders(encode(Orders{{{}}, {}})).ok());
}

TEST(AnnouncementTest, ElementsOfAShape) {
  const auto count = [](std::vector<std::int64_t> shape) {
    return elementsOf(shape, DataType::kFloat32);
  };
  EXPECT_EQ(count({}), 1);
  EXPECT_EQ(count({2, 3}), 6);
  EXPECT_EQ(count({1LL << 62, 0}), 0);
  EXPECT_EQ(count({1LL << 58}), 1LL << 58);
  EXPECT_EQ(count({(1LL << 58) + 1}), std::nullopt);
  EXPECT_EQ(count({0, -1}), std::nullopt);
}

}  // namespace
}  // namespace colla::named
