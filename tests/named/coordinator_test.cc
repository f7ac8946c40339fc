// What rank 0 decides, and why; time is passed in.
#include "named/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace colla::named {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

const TimePoint kStart = TimePoint() + 1h;

Announcement tensor(std::string name, std::vector<std::int64_t> shape = {2, 3}) {
  Announcement what;
  what.key.name = std::move(name);
  what.shape = std::move(shape);
  return what;
}

class CoordinatorTest : public ::testing::Test {
 protected:
  void take(int rank, std::vector<Announcement> what, TimePoint now = kStart) {
    const Status status = coordinator_.take(rank, std::move(what), now);
    EXPECT_TRUE(status.ok()) << status;
  }
  void takeAll(const Announcement& what) {
    for (int rank = 0; rank < 3; ++rank) take(rank, {what});
  }
  void join(int rank) {
    Announcement what;
    what.key = {kOwnSet, kJoinName};
    what.kind = Kind::kJoin;
    take(rank, {what});
  }
  Announcement change(Kind kind, std::vector<std::int64_t> ranks, int set = 0) {
    Announcement what;
    what.key = {kOwnSet, kSetsName};
    what.kind = kind;
    what.shape = std::move(ranks);
    what.root = set;
    return what;
  }
  // The one decision that is due.
  Decision only() {
    auto decisions = coordinator_.decide();
    EXPECT_THAT(decisions, SizeIs(1));
    return decisions.empty() ? Decision() : decisions.front();
  }
  std::vector<std::string> names() {
    std::vector<std::string> names;
    for (const Decision& decision : coordinator_.decide()) {
      EXPECT_TRUE(decision.error.ok()) << decision.error;
      names.push_back(decision.what.key.name);
    }
    return names;
  }

  Coordinator coordinator_{{.names = {"rank 0 on host a", "rank 1 on host a", "rank 2 on host b"},
                            .stallWarning = 60s,
                            .stallShutdown = 150s}};
};

TEST_F(CoordinatorTest, AnOperationIsDueWhenEveryRankHasBroughtIt) {
  take(0, {tensor("a"), tensor("b")});
  take(2, {tensor("b"), tensor("a")});
  EXPECT_THAT(names(), IsEmpty());
  take(1, {tensor("b")});
  EXPECT_THAT(names(), ElementsAre("b"));
  take(1, {tensor("a")});
  EXPECT_THAT(names(), ElementsAre("a"));
  // And again, under the same name.
  take(1, {tensor("a")});
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(CoordinatorTest, OrderIsTheOneInWhichOperationsBecameDue) {
  for (const int rank : {0, 1}) take(rank, {tensor("x"), tensor("y"), tensor("z")});
  take(2, {tensor("z"), tensor("x"), tensor("y")});
  EXPECT_THAT(names(), ElementsAre("x", "y", "z"));  // Rank 0 was first with all of them.
}

struct Difference {
  const char* what;
  void (*change)(Announcement&);
  const char* text;
};

TEST_F(CoordinatorTest, MismatchSaysWhoBroughtWhat) {
  const Difference differences[] = {
      {"kind", [](Announcement& a) { a.kind = Kind::kBroadcast; },
       "different operations: allreduce on ranks 0, 2; broadcast on rank 1"},
      {"type", [](Announcement& a) { a.type = DataType::kInt64; },
       "different data types: float32 on ranks 0, 2; int64 on rank 1"},
      {"shape",
       [](Announcement& a) {
         a.shape = {3, 2};
       },
       "different shapes: [2, 3] on ranks 0, 2; [3, 2] on rank 1"},
      {"dimensions", [](Announcement& a) { a.shape = {6}; },
       "different shapes: [2, 3] on ranks 0, 2; [6] on rank 1"},
      {"op", [](Announcement& a) { a.op = Op::kMax; },
       "different reductions: sum on ranks 0, 2; max on rank 1"},
      {"prescale", [](Announcement& a) { a.prescale = 0.5; },
       "different scale factors (before, after): (1, 1) on ranks 0, 2; (0.5, 1) on rank 1"},
      {"postscale", [](Announcement& a) { a.postscale = 2; }, "(1, 2) on rank 1"},
  };
  for (const Difference& difference : differences) {
    SCOPED_TRACE(difference.what);
    for (int rank = 0; rank < 3; ++rank) {
      Announcement what = tensor("w");
      if (rank == 1) difference.change(what);
      take(rank, {what});
    }
    const Decision decision = only();
    EXPECT_EQ(decision.error.code(), StatusCode::kMismatch);
    EXPECT_THAT(std::string(decision.error.message()),
                AllOf(HasSubstr("\"w\""), HasSubstr(difference.text)));
    EXPECT_THAT(decision.ranks, ElementsAre(0, 1, 2));
  }
  // Nothing is left of them.
  takeAll(tensor("w"));
  EXPECT_THAT(names(), ElementsAre("w"));
}

TEST_F(CoordinatorTest, RootsOfABroadcastMustAgree) {
  for (int rank = 0; rank < 3; ++rank) {
    Announcement what = tensor("w");
    what.kind = Kind::kBroadcast;
    what.root = rank == 2 ? 1 : 0;
    take(rank, {what});
  }
  EXPECT_THAT(std::string(only().error.message()),
              HasSubstr("different root ranks: 0 on ranks 0, 1; 1 on rank 2"));
}

TEST_F(CoordinatorTest, RowsMayDifferWhereTheyAreGathered) {
  for (const Kind kind : {Kind::kAllgather, Kind::kAlltoall}) {
    for (int rank = 0; rank < 3; ++rank) {
      Announcement what = tensor("w", {rank * 2, 7});
      what.kind = kind;
      take(rank, {what});
    }
    const Decision decision = only();
    EXPECT_TRUE(decision.error.ok()) << decision.error;
    if (kind == Kind::kAllgather) {
      EXPECT_THAT(decision.rows, ElementsAre(0, 2, 4));
    }

    for (int rank = 0; rank < 3; ++rank) {
      Announcement what = tensor("w", {2, rank == 0 ? 8 : 7});
      what.kind = kind;
      take(rank, {what});
    }
    EXPECT_THAT(std::string(only().error.message()),
                HasSubstr("different shapes: […, 8] on rank 0; […, 7] on ranks 1, 2"));
  }
}

TEST_F(CoordinatorTest, ScalarsHaveNoRows) {
  for (const Kind kind : {Kind::kAllgather, Kind::kAlltoall, Kind::kReducescatter}) {
    Announcement what = tensor("w", {});
    what.kind = kind;
    takeAll(what);
    const Decision decision = only();
    EXPECT_EQ(decision.error.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(decision.error.message()), HasSubstr("at least one dimension"));
  }
}

std::vector<Announcement> group(const std::vector<std::string>& names) {
  std::vector<Announcement> all;
  for (const std::string& name : names) {
    all.push_back(tensor(name));
    all.back().group = {names.front(), static_cast<std::uint32_t>(names.size())};
  }
  return all;
}

TEST_F(CoordinatorTest, AGroupIsDueAsAWhole) {
  take(0, group({"a", "b"}));
  take(1, group({"a", "b"}));
  EXPECT_THAT(names(), IsEmpty());
  take(2, group({"a", "b"}));
  EXPECT_THAT(names(), ElementsAre("a", "b"));
}

TEST_F(CoordinatorTest, AGroupFailsAsAWhole) {
  take(0, group({"a", "b"}));
  take(1, group({"a", "b"}));
  auto wrong = group({"a", "b"});
  wrong[1].shape = {1};
  take(2, wrong);
  const auto decisions = coordinator_.decide();
  ASSERT_THAT(decisions, SizeIs(2));
  for (const Decision& decision : decisions) {
    EXPECT_EQ(decision.error.code(), StatusCode::kMismatch);
    EXPECT_THAT(std::string(decision.error.message()),
                AllOf(HasSubstr("the group can't be carried out"), HasSubstr("\"b\"")));
    EXPECT_THAT(decision.ranks, ElementsAre(0, 1, 2));
  }
}

TEST_F(CoordinatorTest, GroupsThatDifferAreAMismatchForThoseWhoBroughtThem) {
  take(0, group({"a", "b"}));
  take(1, group({"a", "c"}));
  take(2, group({"a", "b"}));
  const auto decisions = coordinator_.decide();
  ASSERT_THAT(decisions, SizeIs(3));
  std::map<std::string, std::vector<int>> concerned;
  for (const Decision& decision : decisions) {
    EXPECT_EQ(decision.error.code(), StatusCode::kMismatch);
    concerned[decision.what.key.name] = decision.ranks;
  }
  EXPECT_THAT(concerned["a"], ElementsAre(0, 1, 2));
  EXPECT_THAT(concerned["b"], ElementsAre(0, 2));
  EXPECT_THAT(concerned["c"], ElementsAre(1));

  take(0, group({"a", "b"}));
  take(1, {tensor("a"), tensor("b")});
  take(2, group({"a", "b"}));
  for (const Decision& decision : coordinator_.decide()) {
    EXPECT_THAT(std::string(decision.error.message()),
                HasSubstr("different groups: in a group of 2 from \"a\" on on ranks 0, 2; alone on "
                          "rank 1"));
  }
  // What was not in a group on rank 1 is gone as well: it can be brought again.
  for (int rank = 0; rank < 3; ++rank) take(rank, group({"a", "b"}));
  EXPECT_THAT(names(), ElementsAre("a", "b"));
}

TEST_F(CoordinatorTest, JoinedRanksCountAsReadyForSums) {
  take(0, {tensor("before")});
  join(1);
  EXPECT_THAT(names(), IsEmpty());
  take(2, {tensor("before")});
  EXPECT_THAT(names(), ElementsAre("before"));
  for (const Op op : {Op::kSum, Op::kAverage, Op::kAdasum}) {
    Announcement what = tensor("w");
    what.op = op;
    take(0, {what});
    take(2, {what});
    EXPECT_THAT(names(), ElementsAre("w"));
  }
  // A rank that joins makes due what waited for it.
  take(0, {tensor("last")});
  EXPECT_THAT(names(), IsEmpty());
  join(2);
  EXPECT_THAT(names(), ElementsAre("last"));
  join(0);
  const Decision all = only();
  EXPECT_EQ(all.what.kind, Kind::kJoin);
  EXPECT_EQ(all.number, 0);
  // Then everything is as before.
  take(0, {tensor("w")});
  take(2, {tensor("w")});
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(CoordinatorTest, WhatZerosWouldSpoilIsRefusedAfterAJoin) {
  join(1);
  for (const Kind kind :
       {Kind::kAllgather, Kind::kBroadcast, Kind::kAlltoall, Kind::kReducescatter}) {
    Announcement what = tensor("w");
    what.kind = kind;
    take(0, {what});
    take(2, {what});
    const Decision decision = only();
    EXPECT_EQ(decision.error.code(), StatusCode::kUnsupported);
    EXPECT_THAT(std::string(decision.error.message()), HasSubstr("while rank 1 has joined"));
    EXPECT_THAT(decision.ranks, ElementsAre(0, 2));
  }
  for (const Op op : {Op::kMin, Op::kMax, Op::kProduct}) {
    Announcement what = tensor("w");
    what.op = op;
    take(0, {what});
    take(2, {what});
    EXPECT_EQ(only().error.code(), StatusCode::kUnsupported);
  }
}

TEST_F(CoordinatorTest, ProcessSets) {
  takeAll(change(Kind::kAddSet, {2, 0}));
  const Decision added = only();
  EXPECT_TRUE(added.error.ok()) << added.error;
  EXPECT_EQ(added.number, 1);
  EXPECT_THAT(coordinator_.sets().at(1), ElementsAre(0, 2));

  // Its members are enough, and its names are its own.
  Announcement inSet = tensor("w");
  inSet.key.set = 1;
  take(0, {inSet});
  take(1, {tensor("w")});
  take(2, {inSet});
  EXPECT_EQ(only().what.key.set, 1);

  const auto refusal = [&](const Announcement& what) {
    takeAll(what);
    return toString(only().error);
  };
  EXPECT_THAT(refusal(change(Kind::kAddSet, {0, 2})), HasSubstr("already: number 1"));
  EXPECT_THAT(refusal(change(Kind::kAddSet, {0, 1, 2})), HasSubstr("already: number 0"));
  EXPECT_THAT(refusal(change(Kind::kAddSet, {0, 3})), HasSubstr("there are ranks 0 to 2"));
  EXPECT_THAT(refusal(change(Kind::kAddSet, {-1})), HasSubstr("there are ranks 0 to 2"));
  EXPECT_THAT(refusal(change(Kind::kAddSet, {1, 1})), HasSubstr("repeated"));
  EXPECT_THAT(refusal(change(Kind::kAddSet, {})), HasSubstr("without ranks"));
  EXPECT_THAT(refusal(change(Kind::kRemoveSet, {}, 0)), HasSubstr("can't be removed"));
  EXPECT_THAT(refusal(change(Kind::kRemoveSet, {}, 5)), HasSubstr("not found: there is no"));
  take(0, {change(Kind::kAddSet, {0})});
  take(1, {change(Kind::kAddSet, {1})});
  take(2, {change(Kind::kAddSet, {0})});
  EXPECT_THAT(toString(only().error),
              HasSubstr("different ranks: [0] on ranks 0, 2; [1] on rank 1"));

  // What is pending in a set goes with it, and so does what comes too late.
  take(0, {inSet});
  takeAll(change(Kind::kRemoveSet, {}, 1));
  const auto decisions = coordinator_.decide();
  ASSERT_THAT(decisions, SizeIs(2));
  EXPECT_TRUE(decisions[0].error.ok());
  EXPECT_EQ(decisions[1].error.code(), StatusCode::kCancelled);
  EXPECT_THAT(decisions[1].ranks, ElementsAre(0));
  take(2, {inSet});
  const Decision late = only();
  EXPECT_EQ(late.error.code(), StatusCode::kCancelled);
  EXPECT_THAT(late.ranks, ElementsAre(2));
}

TEST_F(CoordinatorTest, StallsNameOperationsAndRanks) {
  EXPECT_EQ(coordinator_.nextStall(), TimePoint::max());
  take(0, {tensor("a"), tensor("done")});
  take(2, {tensor("a")}, kStart + 50s);
  take(1, {tensor("b"), tensor("done")}, kStart + 10s);
  take(2, {tensor("done")}, kStart + 55s);
  EXPECT_THAT(names(), ElementsAre("done"));
  EXPECT_EQ(coordinator_.nextStall(), kStart + 60s);
  EXPECT_THAT(coordinator_.stalls(kStart + 59s).report, IsEmpty());

  const auto first = coordinator_.stalls(kStart + 60s);
  EXPECT_TRUE(first.end.ok());
  EXPECT_THAT(
      first.report,
      AllOf(HasSubstr("\"a\", allreduce: ready on ranks 0, 2; missing on rank 1; for 60.0 s"),
            HasSubstr("rank 1 on host a"), Not(HasSubstr("\"b\"")), Not(HasSubstr("done"))));
  // Once each time the limit has passed.
  EXPECT_EQ(coordinator_.nextStall(), kStart + 70s);
  const auto second = coordinator_.stalls(kStart + 70s);
  EXPECT_THAT(second.report, AllOf(HasSubstr("\"b\""), HasSubstr("missing on ranks 0, 2"),
                                   Not(HasSubstr("\"a\""))));
  EXPECT_THAT(coordinator_.stalls(kStart + 120s).report, HasSubstr("\"a\""));

  EXPECT_EQ(coordinator_.nextStall(), kStart + 130s);
  static_cast<void>(coordinator_.stalls(kStart + 130s));
  EXPECT_EQ(coordinator_.nextStall(), kStart + 150s);
  const auto last = coordinator_.stalls(kStart + 150s);
  EXPECT_EQ(last.end.code(), StatusCode::kTimeout);
  EXPECT_THAT(std::string(last.end.message()),
              AllOf(HasSubstr("more than 150 s"), HasSubstr("\"a\""),
                    HasSubstr("missing on rank 1"), Not(HasSubstr("\"b\""))));
}

TEST_F(CoordinatorTest, AStallTellsOfTheSameNameInAnotherSet) {
  takeAll(change(Kind::kAddSet, {0, 1}));
  static_cast<void>(only());
  Announcement inSet = tensor("w");
  inSet.key.set = 1;
  take(0, {inSet});
  take(1, {tensor("w")});
  EXPECT_THAT(coordinator_.stalls(kStart + 60s).report,
              HasSubstr("\"w\" (process set 1), allreduce: ready on rank 0; missing on rank 1; for "
                        "60.0 s (rank 1 has brought it in process set 0)"));
}

TEST_F(CoordinatorTest, RanksThatBreakTheRulesAreNotBelieved) {
  take(1, {tensor("a")});
  const Status twice = coordinator_.take(1, {tensor("a")}, kStart);
  EXPECT_EQ(twice.code(), StatusCode::kMismatch);
  EXPECT_EQ(twice.peer(), 1);
  EXPECT_THAT(std::string(twice.message()), HasSubstr("rank 1 on host a announces \"a\" twice"));
  takeAll(change(Kind::kAddSet, {0, 2}));
  static_cast<void>(only());
  Announcement inSet = tensor("w");
  inSet.key.set = 1;
  EXPECT_THAT(toString(coordinator_.take(1, {inSet}, kStart)), HasSubstr("without being a member"));
}

}  // namespace
}  // namespace colla::named
