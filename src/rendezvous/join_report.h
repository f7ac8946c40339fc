// What to say while a job waits for its processes: a pure function of time and state.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/deadline.h"
#include "rendezvous/member_id.h"

namespace colla::rendezvous {

struct Expected {
  int workers = 1;
  int servers = 0;

  int total() const { return workers + servers; }
  bool contains(MemberId id) const {
    return id.rank >= 0 && id.rank < (id.role == Role::kWorker ? workers : servers);
  }
};

struct JoinReportOptions {
  std::chrono::milliseconds first{5'000};   // Quiet for so long,
  std::chrono::milliseconds every{10'000};  // then a line so often,
  std::size_t named = 8;                    // with at most so many names.
  // Everybody speaks. Otherwise the first of those that are there does: all would say the same.
  bool everybody = false;
  std::string advice = {};  // What to do about those who did not come, for the end.
};

struct JoinState {
  TimePoint started;
  std::optional<TimePoint> lastReport;
  Expected expected;
  std::set<MemberId> present;
  // Where each should be, as far as it is known: "on host b", "at b:2222".
  std::map<MemberId, std::string> places;
  MemberId self{Role::kWorker, 0};  // Who asks.
};

struct JoinNews {
  std::string text;    // Empty: nothing to say now.
  TimePoint nextLook;  // When to ask again.
};

// `state.present` need not name anybody but the first where that is not this process.
JoinNews joinNews(TimePoint now, const JoinState& state, const JoinReportOptions& options);

// "rank 3 on host b", "rank 3 on host b, rank 4 and 12 more"; empty when nobody is missing.
std::string missingMembers(const JoinState& state, std::size_t named);

}  // namespace colla::rendezvous
