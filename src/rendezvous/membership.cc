#include "rendezvous/membership.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/bytes.h"

namespace colla::rendezvous {
namespace {

using namespace std::chrono_literals;

std::string membersPattern(std::uint32_t epoch) { return fmt::format("epoch/{}/member/", epoch); }

std::string memberKey(std::uint32_t epoch, MemberId id) {
  return fmt::format("{}{}/{}", membersPattern(epoch), id.role == Role::kWorker ? "worker" : "ps",
                     id.rank);
}

constexpr char kPlacementKey[] = "placement";

std::string textOf(ByteWriter& writer) {
  const auto bytes = writer.bytes();
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

ByteReader readerOf(std::string_view text) { return ByteReader(std::as_bytes(std::span(text))); }

void writeId(ByteWriter& writer, MemberId id) {
  writer.number(static_cast<std::uint8_t>(id.role));
  writer.number(static_cast<std::int32_t>(id.rank));
}

MemberId readId(ByteReader& reader) {
  const auto role = reader.number<std::uint8_t>();
  const auto rank = reader.number<std::int32_t>();
  return {role == 0 ? Role::kWorker : Role::kServer, rank};
}

// What the launcher wrote, or nothing: it only makes messages better.
std::map<MemberId, std::string> placement(Store& store, Deadline deadline) {
  std::map<MemberId, std::string> places;
  const auto text = store.get(kPlacementKey, deadline);
  if (!text.ok()) return places;
  ByteReader reader = readerOf(*text);
  while (reader.ok() && reader.remaining() > 0) {
    const MemberId id = readId(reader);
    places[id] = reader.text();
  }
  return places;
}

Result<std::vector<Member>> parseMembers(const std::vector<Entry>& entries) {
  std::vector<Member> members;
  for (const Entry& entry : entries) {
    auto member = parseMember(entry.value.value_or(""));
    if (!member.ok()) return member.status().withContext(entry.key);
    members.push_back(*std::move(member));
  }
  std::ranges::sort(members, {}, &Member::id);
  return members;
}

// Whether the first of all is there, who then speaks for the others. Asked before the whole list
// is, which is long where many wait.
Result<bool> firstSpeaks(Store& store, std::uint32_t epoch, const JoinState& state,
                         Deadline deadline) {
  const MemberId first{Role::kWorker, 0};
  if (state.self == first) return false;
  const auto entry = store.get(memberKey(epoch, first), deadline);
  if (entry.ok()) return true;
  if (entry.status().code() == StatusCode::kNotFound) return false;
  return entry.status();
}

Status lookWhoIsThere(Store& store, std::uint32_t epoch, JoinState& state, Deadline deadline) {
  COLLA_TRY_ASSIGN(const auto entries, store.list(membersPattern(epoch), deadline));
  COLLA_TRY_ASSIGN(const auto members, parseMembers(entries));
  state.present.clear();
  for (const Member& member : members) state.present.insert(member.id());
  if (state.places.empty()) state.places = placement(store, deadline);
  return {};
}

Status lateMembers(Store& store, std::uint32_t epoch, JoinState& state, const std::string& advice) {
  // The deadline has passed; who is to blame is worth a moment more.
  const Status looked = lookWhoIsThere(store, epoch, state, Deadline::after(1s));
  const auto waited =
      std::chrono::round<std::chrono::seconds>(std::chrono::steady_clock::now() - state.started);
  return {StatusCode::kTimeout,
          fmt::format("the job is not complete after {} s: {} did not join{}{}", waited.count(),
                      looked.ok() ? missingMembers(state, 16) : std::string("somebody"),
                      advice.empty() ? "" : "; ", advice)};
}

}  // namespace

std::string Member::name() const { return fmt::format("{} on host {}", toString(id()), host); }

int Membership::find(MemberId id) const {
  const auto it = std::ranges::find(members, id, &Member::id);
  return it == members.end() ? -1 : static_cast<int>(it - members.begin());
}

std::string encodeMember(const Member& member) {
  ByteWriter writer;
  writeId(writer, member.id());
  writer.text(member.host);
  writer.text(member.hostKey);
  writer.number(static_cast<std::int32_t>(member.pid));
  writer.number(static_cast<std::uint32_t>(member.addresses.size()));
  for (const auto& [backend, address] : member.addresses) {
    writer.text(backend);
    writer.text(address);
  }
  writer.number(member.process);
  return textOf(writer);
}

Result<Member> parseMember(std::string_view text) {
  ByteReader reader = readerOf(text);
  Member member;
  const MemberId id = readId(reader);
  member.role = id.role;
  member.rank = id.rank;
  member.host = reader.text();
  member.hostKey = reader.text();
  member.pid = reader.number<std::int32_t>();
  const auto count = reader.number<std::uint32_t>();
  for (std::uint32_t i = 0; i < count && reader.ok(); ++i) {
    std::string backend = reader.text();
    member.addresses[std::move(backend)] = reader.text();
  }
  member.process = reader.number<std::uint64_t>();
  if (!reader.done()) return {StatusCode::kInvalidArgument, "a member's entry is malformed"};
  return member;
}

Result<std::uint32_t> takePlace(Store& store, std::uint32_t epoch, const Member& self,
                                const Expected& expected, Deadline deadline) {
  if (!expected.contains(self.id())) {
    return {StatusCode::kInvalidArgument,
            fmt::format("{} does not exist in a job of {} workers and {} servers",
                        toString(self.id()), expected.workers, expected.servers)};
  }
  for (;; ++epoch) {
    COLLA_TRY_ASSIGN(const auto outcome, store.compareSet(memberKey(epoch, self.id()), std::nullopt,
                                                          encodeMember(self), deadline));
    if (outcome.set) return epoch;
    const auto holder = parseMember(outcome.current.value_or(""));
    if (holder.ok() && holder->process == self.process && holder->pid == self.pid) continue;
    return {
        StatusCode::kRefused,
        fmt::format("there are two processes for {}: this one (process {} on host {}) and {}; "
                    "start each rank once",
                    toString(self.id()), self.pid, self.host,
                    holder.ok() ? fmt::format("process {} on host {}", holder->pid, holder->host)
                                : "one that came first")};
  }
}

Result<Membership> awaitMembers(Store& store, std::uint32_t epoch, const Member& self,
                                const Expected& expected, Deadline deadline,
                                const std::function<void(const std::string&)>& report,
                                const JoinReportOptions& options) {
  JoinState state;
  state.self = self.id();
  state.started = std::chrono::steady_clock::now();
  state.expected = expected;
  while (true) {
    const TimePoint now = std::chrono::steady_clock::now();
    const JoinNews news = joinNews(now, state, options);
    if (!news.text.empty() && report != nullptr) {
      report(news.text);
      state.lastReport = now;
    }
    const Deadline look = report == nullptr ? deadline : Deadline::at(news.nextLook);
    auto entries = store.waitCount(membersPattern(epoch), expected.total(), deadline.earlier(look));
    if (entries.ok()) {
      COLLA_TRY_ASSIGN(auto members, parseMembers(*entries));
      for (const Member& member : members) {
        if (expected.contains(member.id())) continue;
        return {StatusCode::kMismatch,
                fmt::format("{} joined, but this process knows a job of {} workers and {} servers",
                            member.name(), expected.workers, expected.servers)};
      }
      return Membership{epoch, std::move(members)};
    }
    if (entries.status().code() != StatusCode::kTimeout) return entries.status();
    if (deadline.expired()) return lateMembers(store, epoch, state, options.advice);
    // Not by the join's own deadline: who is missing counts, not that a look came too late.
    const Deadline soon = Deadline::after(5s);
    bool spokenFor = false;
    if (!options.everybody) {
      COLLA_TRY_ASSIGN(spokenFor, firstSpeaks(store, epoch, state, soon));
    }
    if (spokenFor) {
      state.present = {MemberId{Role::kWorker, 0}};
    } else {
      COLLA_TRY(lookWhoIsThere(store, epoch, state, soon));
    }
  }
}

Result<Membership> join(Store& store, std::uint32_t epoch, const Member& self,
                        const Expected& expected, Deadline deadline,
                        const std::function<void(const std::string&)>& report,
                        const JoinReportOptions& options) {
  COLLA_TRY_ASSIGN(epoch, takePlace(store, epoch, self, expected, deadline));
  return awaitMembers(store, epoch, self, expected, deadline, report, options);
}

Status publishPlacement(Store& store, const std::map<MemberId, std::string>& places,
                        Deadline deadline) {
  ByteWriter writer;
  for (const auto& [id, place] : places) {
    writeId(writer, id);
    writer.text(place);
  }
  return store.set(kPlacementKey, textOf(writer), deadline);
}

Result<std::vector<MemberId>> agreeOnNext(Store& store, std::uint32_t epoch,
                                          std::span<const MemberId> proposal, Deadline deadline) {
  ByteWriter writer;
  for (const MemberId id : proposal) writeId(writer, id);
  COLLA_TRY_ASSIGN(const auto outcome,
                   store.compareSet(fmt::format("epoch/{}/survivors", epoch + 1), std::nullopt,
                                    textOf(writer), deadline));
  if (outcome.set) return std::vector<MemberId>(proposal.begin(), proposal.end());
  if (!outcome.current) return {StatusCode::kInternal, "the list of survivors is missing"};
  std::vector<MemberId> agreed;
  ByteReader reader = readerOf(*outcome.current);
  while (reader.ok() && reader.remaining() > 0) agreed.push_back(readId(reader));
  if (!reader.ok()) return {StatusCode::kInternal, "the list of survivors is malformed"};
  return agreed;
}

}  // namespace colla::rendezvous
