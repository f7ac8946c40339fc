// Decides what is carried out, and in which order: rank 0's part of an exchange, without threads,
// messages or clocks of its own.
//
// An operation is due when every member of its set has announced it; members that have joined count
// as if they had. A group is due when all of its operations are. Not thread safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "colla/status.h"
#include "named/agreement.h"
#include "named/announcement.h"

namespace colla::named {

class Coordinator {
 public:
  struct Options {
    std::vector<std::string> names;            // Of the ranks, "rank 1 on host b".
    std::chrono::nanoseconds stallWarning{0};  // 0: never.
    std::chrono::nanoseconds stallShutdown{0};
  };
  explicit Coordinator(Options options);

  // What one rank reports: all of its announcements, so that groups come whole. kMismatch when the
  // rank breaks the rules, and nothing of it can be trusted any more.
  Status take(int rank, std::vector<Announcement> announcements, TimePoint now);
  // What is due, in the order of the announcements that may have made it so.
  std::vector<Decision> decide();

  struct Stall {
    std::string report;  // Empty: nothing to say.
    Status end;          // Bad: it has lasted too long.
  };
  // What has waited too long for some ranks.
  Stall stalls(TimePoint now);
  // When to ask for it next.
  TimePoint nextStall() const;

  const std::map<int, std::vector<int>>& sets() const { return sets_; }

 private:
  struct Entry {
    std::map<int, Announcement> brought;  // By rank.
    TimePoint since;
    TimePoint warned;  // When it was last reported; `since` before that.
  };
  using Entries = std::map<Key, Entry>;

  int size() const { return static_cast<int>(options_.names.size()); }
  const std::vector<int>* membersOf(int set) const;
  std::vector<int> missing(const Key& key, const Entry& entry) const;
  bool due(const Key& key, const Entry& entry) const;

  void decide(Entries::iterator it, std::vector<Decision>& decisions);
  void decideGroup(GroupMark group, Entries::iterator it, std::vector<Decision>& decisions);
  Decision judge(const Key& key, Entry& entry);
  Status joinedStatus(const Key& key, const Entry& entry) const;
  void changeSets(Decision& decision);
  void refuse(Entries::iterator it, const Status& why, std::vector<Decision>& decisions);
  std::string line(const Key& key, const Entry& entry, TimePoint now) const;

  const Options options_;
  std::map<int, std::vector<int>> sets_;
  int nextSet_ = 1;
  Entries entries_;
  std::vector<Key> touched_;  // May be due since the last decide(), in the order of arrival.
  std::vector<Decision> refused_;
  std::vector<int> joined_;  // In the order in which they did.
};

}  // namespace colla::named
