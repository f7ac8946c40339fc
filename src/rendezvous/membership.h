// Who is in the job: a numbered list (epoch) of processes that all of them agree on.
//
// Thread safety: functions of a Store that is; values otherwise.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "colla/role.h"
#include "colla/status.h"
#include "rendezvous/join_report.h"
#include "rendezvous/member_id.h"
#include "rendezvous/store.h"

namespace colla::rendezvous {

struct Member {
  Role role = Role::kWorker;
  int rank = 0;
  std::string host;
  std::string hostKey;  // Equal for members that can share memory: see host_key.h.
  int pid = 0;
  std::map<std::string, std::string> addresses;  // By backend: "tcp" -> "10.0.0.1:4000".
  std::uint64_t process = 0;  // Random and of this process alone: pids come again.

  MemberId id() const { return {role, rank}; }
  // "rank 3 on host b", "ps 0 on host a".
  std::string name() const;
  friend bool operator==(const Member&, const Member&) = default;
};

struct Membership {
  std::uint32_t epoch = 0;
  std::vector<Member> members;  // Workers by rank, then servers by rank.

  // The place in `members`, the number that transports know a process by; -1: not in it.
  int find(MemberId id) const;
};

// Takes this process's place in `epoch` or, since a process may be in several jobs, in the first
// epoch from there on in which it has none yet: its n-th call meets the n-th of the others.
// kRefused when another process has the place, with which.
Result<std::uint32_t> takePlace(Store& store, std::uint32_t epoch, const Member& self,
                                const Expected& expected, Deadline deadline);

// Waits for all others of `expected` in the epoch that takePlace() gave.
//
// `report` (may be null) gets a line now and then while somebody is missing, in the first of the
// processes that are there. kTimeout, with who did not come.
Result<Membership> awaitMembers(Store& store, std::uint32_t epoch, const Member& self,
                                const Expected& expected, Deadline deadline,
                                const std::function<void(const std::string&)>& report = nullptr,
                                const JoinReportOptions& options = {});

// Both.
Result<Membership> join(Store& store, std::uint32_t epoch, const Member& self,
                        const Expected& expected, Deadline deadline,
                        const std::function<void(const std::string&)>& report = nullptr,
                        const JoinReportOptions& options = {});

// Tells those who wait where each member should be ("on host b"), before any of them joins. For
// launchers: it holds for all epochs.
Status publishPlacement(Store& store, const std::map<MemberId, std::string>& places,
                        Deadline deadline);

// Agrees on who goes on from `epoch` to the next one: the first proposal wins, and everybody gets
// that one, in its order. The new rank of a worker is its place among the workers of the list, and
// so for servers. A process that is not in it was given up by the others.
Result<std::vector<MemberId>> agreeOnNext(Store& store, std::uint32_t epoch,
                                          std::span<const MemberId> proposal, Deadline deadline);

std::string encodeMember(const Member& member);
Result<Member> parseMember(std::string_view text);

}  // namespace colla::rendezvous
