// The server's decisions, without sockets.
#include "rendezvous/store_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rendezvous/store_protocol.h"

namespace colla::rendezvous {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class StoreStateTest : public ::testing::Test {
 protected:
  void apply(StoreState::ClientId client, Operation operation, std::string key,
             std::string value = "", std::int64_t number = 0,
             std::optional<std::string> expected = std::nullopt) {
    state_.apply(client, {nextId_++, operation, std::move(key), std::move(value),
                          std::move(expected), number});
  }
  // "client: answer key=value, …" of everything since the last call.
  std::vector<std::string> heard() { return std::exchange(heard_, {}); }

  std::vector<std::string> heard_;
  std::uint32_t nextId_ = 1;
  StoreState state_{
      [this](auto client, auto id, auto answer, const Body& body) {
        auto frame = encodeResponseHead(id, answer);
        frame.insert(frame.end(), body->begin(), body->end());
        const auto response = parseResponse(frame);
        ASSERT_TRUE(response.ok()) << response.status();
        constexpr const char* kNames[] = {"", "found", "missing", "conflict", "changed", "error"};
        std::string line =
            std::to_string(client) + ": " + kNames[static_cast<int>(response->answer)];
        for (const auto& entry : response->entries) {
          line += " " + entry.key + "=" + entry.value.value_or("-");
        }
        heard_.push_back(line);
      },
      /*maxBytes=*/100};
};

TEST_F(StoreStateTest, SetGetRemove) {
  apply(1, Operation::kGet, "a");
  apply(1, Operation::kSet, "a", "x");
  apply(2, Operation::kGet, "a");
  apply(2, Operation::kRemove, "a");
  apply(2, Operation::kRemove, "a");
  EXPECT_THAT(heard(),
              ElementsAre("1: missing", "1: found", "2: found a=x", "2: found a=x", "2: missing"));
}

TEST_F(StoreStateTest, WaitersAreAnsweredOnceAndOnlyByValues) {
  apply(1, Operation::kWait, "a/b");
  apply(2, Operation::kWait, "a/b");
  apply(3, Operation::kSet, "a", "x");
  apply(3, Operation::kSet, "a/bc", "x");
  EXPECT_THAT(heard(), ElementsAre("3: found", "3: found"));
  apply(3, Operation::kSet, "a/b", "y");
  EXPECT_THAT(heard(), ElementsAre("1: found a/b=y", "2: found a/b=y", "3: found"));
  EXPECT_EQ(state_.waiting(), 0U);
  apply(3, Operation::kSet, "a/b", "z");
  EXPECT_THAT(heard(), ElementsAre("3: found"));
}

TEST_F(StoreStateTest, CountsKeysBelowAPattern) {
  apply(1, Operation::kWaitCount, "m/", "", 2);
  apply(2, Operation::kSet, "m/a", "1");
  apply(2, Operation::kSet, "m/a", "2");  // The same key is no second one.
  apply(2, Operation::kSet, "ma", "3");   // Not below.
  EXPECT_THAT(heard(), ElementsAre("2: found", "2: found", "2: found"));
  apply(2, Operation::kSet, "m/x/y", "4");
  EXPECT_THAT(heard(), ElementsAre("1: found m/a=2 m/x/y=4", "2: found"));
  apply(1, Operation::kWaitCount, "m/", "", 2);
  EXPECT_THAT(heard(), ElementsAre("1: found m/a=2 m/x/y=4"));
}

TEST_F(StoreStateTest, WatchesTellWhatIsThereAndWhatChanges) {
  apply(9, Operation::kSet, "w/a", "1");
  heard();
  apply(1, Operation::kWatch, "w/");
  EXPECT_THAT(heard(), ElementsAre("1: changed w/a=1", "1: found"));
  apply(9, Operation::kSet, "w/b/c", "2");
  apply(9, Operation::kRemove, "w/a");
  EXPECT_THAT(heard(),
              ElementsAre("1: changed w/b/c=2", "9: found", "9: found w/a=1", "1: changed w/a=-"));
  state_.forget(1);
  apply(9, Operation::kSet, "w/a", "3");
  EXPECT_THAT(heard(), ElementsAre("9: found"));
  EXPECT_EQ(state_.waiting(), 0U);
}

TEST_F(StoreStateTest, WatchOfOneKeyIsNotOfThoseThatBeginLikeIt) {
  apply(9, Operation::kSet, "key2", "1");
  heard();
  apply(1, Operation::kWatch, "key");
  apply(9, Operation::kSet, "key2", "2");
  apply(9, Operation::kSet, "key", "3");
  EXPECT_THAT(heard(), ElementsAre("1: found", "9: found", "1: changed key=3", "9: found"));
}

TEST_F(StoreStateTest, CancelEndsOneWait) {
  state_.apply(1, {7, Operation::kWait, "a", "", {}, 0});
  state_.apply(2, {7, Operation::kWait, "a", "", {}, 0});
  state_.apply(1, {7, Operation::kCancel, "a", "", {}, 0});
  EXPECT_EQ(state_.waiting(), 1U);
  apply(3, Operation::kSet, "a", "x");
  EXPECT_THAT(heard(), ElementsAre("2: found a=x", "3: found"));
}

TEST_F(StoreStateTest, AddAndCompareSet) {
  apply(1, Operation::kAdd, "n", "", 5);
  apply(1, Operation::kAdd, "n", "", -7);
  apply(1, Operation::kCompareSet, "n", "x", 0, "5");
  apply(1, Operation::kCompareSet, "n", "x", 0, "-2");
  apply(1, Operation::kAdd, "n", "", 1);
  apply(1, Operation::kCompareSet, "new", "y");
  apply(1, Operation::kCompareSet, "new", "z");
  apply(1, Operation::kSet, "big", "9223372036854775807");
  apply(1, Operation::kAdd, "big", "", 1);
  EXPECT_THAT(heard(), ElementsAre("1: found n=5", "1: found n=-2", "1: conflict n=-2", "1: found",
                                   "1: error =n is not a number", "1: found", "1: conflict new=y",
                                   "1: found", "1: error =big would overflow"));
}

TEST_F(StoreStateTest, RefusesWhatDoesNotFit) {
  apply(1, Operation::kSet, "a", std::string(99, 'x'));
  apply(1, Operation::kSet, "b", "");
  apply(1, Operation::kSet, "a", "");
  apply(1, Operation::kSet, "b", std::string(98, 'x'));
  EXPECT_THAT(heard(), ElementsAre("1: found", HasSubstr("full"), "1: found", "1: found"));
}

TEST(StoreProtocolTest, RefusesMalformedRequests) {
  Request request;
  request.operation = Operation::kCompareSet;
  request.key = "key";
  request.value = "value";
  request.expected = "old";
  const auto whole = encodeRequest(request);
  ASSERT_TRUE(parseRequest(whole).ok());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(parseRequest(std::span(whole).first(size)).ok()) << size;
  }
  const auto refused = [](Operation operation, std::string key) {
    Request bad;
    bad.operation = operation;
    bad.key = std::move(key);
    return !parseRequest(encodeRequest(bad)).ok();
  };
  EXPECT_TRUE(refused(Operation::kSet, ""));
  EXPECT_TRUE(refused(Operation::kSet, "a/"));
  EXPECT_TRUE(refused(Operation::kList, "a"));
  EXPECT_TRUE(refused(Operation::kGet, std::string(kMaxKey + 1, 'k')));
  EXPECT_TRUE(refused(static_cast<Operation>(0), "a"));
  EXPECT_TRUE(refused(static_cast<Operation>(200), "a"));
  EXPECT_FALSE(refused(Operation::kWatch, "a"));
}

}  // namespace
}  // namespace colla::rendezvous
