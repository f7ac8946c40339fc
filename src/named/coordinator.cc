#include "named/coordinator.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

namespace colla::named {
namespace {

bool contains(const std::vector<int>& ranks, int rank) {
  return std::ranges::find(ranks, rank) != ranks.end();
}

}  // namespace

Coordinator::Coordinator(Options options) : options_(std::move(options)) {
  std::vector<int>& world = sets_[kWorldSet];
  world.resize(options_.names.size());
  std::iota(world.begin(), world.end(), 0);
}

const std::vector<int>* Coordinator::membersOf(int set) const {
  const auto it = sets_.find(set == kOwnSet ? kWorldSet : set);
  return it == sets_.end() ? nullptr : &it->second;
}

bool Coordinator::due(const Key& key, const Entry& entry) const {
  const std::size_t most = entry.brought.size() + joined_.size();
  return most >= membersOf(key.set)->size() && missing(key, entry).empty();
}

std::vector<int> Coordinator::missing(const Key& key, const Entry& entry) const {
  std::vector<int> ranks;
  for (const int rank : *membersOf(key.set)) {
    if (!entry.brought.contains(rank) && !contains(joined_, rank)) ranks.push_back(rank);
  }
  return ranks;
}

Status Coordinator::take(int rank, std::vector<Announcement> announcements, TimePoint now) {
  const auto nonsense = [&](std::string_view what, const Announcement& announcement) -> Status {
    return {StatusCode::kMismatch,
            fmt::format("{} announces {} {}", options_.names[rank], describe(announcement), what),
            rank};
  };
  for (Announcement& what : announcements) {
    const Key key = what.key;
    if (what.kind == Kind::kJoin) {
      if (contains(joined_, rank)) return nonsense("twice", what);
      joined_.push_back(rank);
      for (const auto& [waiting, entry] : entries_) touched_.push_back(waiting);
      continue;
    }
    const std::vector<int>* const members = membersOf(key.set);
    if (members == nullptr) {
      // It was submitted before the rank knew.
      refused_.push_back(
          {.what = std::move(what),
           .rows = {},
           .error = {StatusCode::kCancelled, fmt::format("process set {} was removed", key.set)},
           .ranks = {rank}});
      continue;
    }
    if (!contains(*members, rank)) return nonsense("without being a member", what);
    Entry& entry = entries_[key];
    if (entry.brought.empty()) entry.since = entry.warned = now;
    if (!entry.brought.emplace(rank, std::move(what)).second) {
      return nonsense("twice", entry.brought.at(rank));
    }
    touched_.push_back(key);
  }
  return {};
}

std::vector<Decision> Coordinator::decide() {
  std::vector<Decision> decisions = std::exchange(refused_, {});
  // Removing a set is a decision that refuses others, but makes none due: one pass is enough.
  for (const Key& key : std::exchange(touched_, {})) {
    const auto it = entries_.find(key);
    if (it != entries_.end() && due(it->first, it->second)) decide(it, decisions);
  }
  if (static_cast<int>(joined_.size()) == size()) {
    Decision all;
    all.what = {.key = {kOwnSet, kJoinName}, .kind = Kind::kJoin};
    all.number = joined_.back();
    joined_.clear();
    decisions.push_back(std::move(all));
  }
  return decisions;
}

void Coordinator::decide(Entries::iterator it, std::vector<Decision>& decisions) {
  for (const auto& [rank, what] : it->second.brought) {
    if (what.group.count > 0) return decideGroup(it, decisions);
  }
  Decision decision = judge(it->first, it->second);
  entries_.erase(it);
  if (decision.error.ok()) changeSets(decision);
  const bool removed = decision.error.ok() && decision.what.kind == Kind::kRemoveSet;
  const int set = decision.what.root;
  decisions.push_back(std::move(decision));
  if (!removed) return;
  const Status why(StatusCode::kCancelled, fmt::format("process set {} was removed", set));
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto next = std::next(entry);
    if (entry->first.set == set) refuse(entry, why, decisions);
    entry = next;
  }
}

// A rank reports a group as a whole. So when one of its operations is due, all of them are, or the
// ranks have grouped differently: that ends every group concerned, for those who brought it.
void Coordinator::decideGroup(Entries::iterator it, std::vector<Decision>& decisions) {
  std::set<GroupMark> marks;
  for (const auto& [rank, what] : it->second.brought) {
    if (what.group.count > 0) marks.insert(what.group);
  }
  std::vector<Key> keys;
  bool whole = marks.size() == 1;
  for (const auto& [key, entry] : entries_) {
    if (key.set != it->first.set) continue;
    const bool concerned = std::ranges::any_of(
        entry.brought, [&](const auto& brought) { return marks.contains(brought.second.group); });
    if (!concerned) continue;
    keys.push_back(key);
    whole &= due(key, entry);
  }
  whole &= keys.size() == marks.begin()->count;

  Status why;
  std::vector<Decision> judged;
  for (const Key& key : keys) {
    Entry& entry = entries_.at(key);
    if (!due(key, entry)) continue;
    judged.push_back(judge(key, entry));
    if (why.ok()) why = judged.back().error;
  }
  if (why.ok() && !whole) {
    why = {StatusCode::kMismatch,
           fmt::format("{}: ranks brought groups with different tensors under this name",
                       describe(it->second.brought.begin()->second))};
  }
  if (why.ok()) {
    for (const Key& key : keys) entries_.erase(key);
    std::ranges::move(judged, std::back_inserter(decisions));
    return;
  }
  why = why.withContext("the group can't be carried out");
  for (const Key& key : keys) refuse(entries_.find(key), why, decisions);
}

void Coordinator::refuse(Entries::iterator it, const Status& why,
                         std::vector<Decision>& decisions) {
  Decision decision;
  decision.what = it->second.brought.begin()->second;
  decision.error = why;
  for (const auto& [rank, what] : it->second.brought) decision.ranks.push_back(rank);
  entries_.erase(it);
  decisions.push_back(std::move(decision));
}

Decision Coordinator::judge(const Key& key, Entry& entry) {
  std::vector<Brought> all;
  for (const auto& [rank, what] : entry.brought) all.push_back({rank, &what});
  Decision decision;
  decision.what = *all.front().what;
  decision.error = agreement(all);
  if (decision.error.ok()) decision.error = joinedStatus(key, entry);
  if (!decision.error.ok()) {
    for (const Brought& one : all) decision.ranks.push_back(one.rank);
  } else if (decision.what.kind == Kind::kAllgather) {
    for (const int rank : *membersOf(key.set)) {
      decision.rows.push_back(entry.brought.at(rank).shape.front());
    }
  }
  return decision;
}

// Zeros are nothing to a sum, an average of all members and Adasum; elsewhere there is no answer
// that is right.
Status Coordinator::joinedStatus(const Key& key, const Entry& entry) const {
  std::vector<int> absent;
  for (const int rank : *membersOf(key.set)) {
    if (!entry.brought.contains(rank)) absent.push_back(rank);
  }
  const Announcement& what = entry.brought.begin()->second;
  const bool possible =
      what.kind == Kind::kBarrier || (what.kind == Kind::kAllreduce && what.op != Op::kMin &&
                                      what.op != Op::kMax && what.op != Op::kProduct);
  if (absent.empty() || possible) return {};
  const std::string kind = what.kind == Kind::kAllreduce
                               ? fmt::format("allreduce with {}", toString(what.op))
                               : std::string(toString(what.kind));
  return {StatusCode::kUnsupported,
          fmt::format("{}: {} is not possible while {} has joined: bring the same number of them "
                      "on every rank before join()",
                      describe(what), kind, ranksText(absent))};
}

void Coordinator::changeSets(Decision& decision) {
  const auto fail = [&](StatusCode code, std::string message) {
    decision.error = {code, std::move(message)};
    decision.ranks = sets_.at(kWorldSet);
  };
  if (decision.what.kind == Kind::kRemoveSet) {
    const int set = decision.what.root;
    if (set == kWorldSet) {
      fail(StatusCode::kInvalidArgument, "process set 0, of all ranks, can't be removed");
    } else if (sets_.erase(set) == 0) {
      fail(StatusCode::kNotFound, fmt::format("there is no process set {}", set));
    }
  } else if (decision.what.kind == Kind::kAddSet) {
    std::vector<std::int64_t>& wanted = decision.what.shape;
    std::ranges::sort(wanted);
    if (wanted.empty()) return fail(StatusCode::kInvalidArgument, "a process set without ranks");
    if (wanted.front() < 0 || wanted.back() >= size()) {
      return fail(StatusCode::kInvalidArgument,
                  fmt::format("a process set of ranks {}, but there are ranks 0 to {}",
                              toText(wanted), size() - 1));
    }
    if (std::ranges::adjacent_find(wanted) != wanted.end()) {
      return fail(StatusCode::kInvalidArgument,
                  fmt::format("a process set of ranks {}: some are repeated", toText(wanted)));
    }
    const std::vector<int> ranks(wanted.begin(), wanted.end());
    for (const auto& [set, members] : sets_) {
      if (members == ranks) {
        return fail(StatusCode::kInvalidArgument,
                    fmt::format("there is a process set of ranks {} already: number {}",
                                toText(wanted), set));
      }
    }
    decision.number = nextSet_++;
    sets_[decision.number] = ranks;
  }
}

}  // namespace colla::named
