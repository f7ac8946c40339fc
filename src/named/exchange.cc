#include "named/exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <numeric>
#include <utility>

#include "collective/group_core.h"
#include "named/announce.h"

namespace colla::named {
namespace {

// Apart from everything else between the same processes: nobody sends to a rank of a group that
// the exchange has to itself.
std::uint32_t messagesOf(Group& group) { return group.core().options().id | kMessageBit; }

}  // namespace

Result<std::unique_ptr<NamedExchange>> NamedExchange::create(Job& job, Options options) {
  if (job.role() != Role::kWorker) {
    return {StatusCode::kInvalidArgument, "an exchange is among workers: servers have no part"};
  }
  std::vector<int> all(static_cast<std::size_t>(job.size()));
  std::iota(all.begin(), all.end(), 0);
  COLLA_TRY_ASSIGN(auto world, job.world().subgroup(all));
  std::unique_ptr<NamedExchange> exchange(
      new NamedExchange(job, std::move(options), std::move(world)));
  exchange->thread_ = std::thread([exchange = exchange.get()] { exchange->serveOnThread(); });
  return exchange;
}

NamedExchange::NamedExchange(Job& job, Options options, std::unique_ptr<Group> world)
    : options_(std::move(options)),
      names_(world->core().options().names),
      rank_(job.rank()),
      wake_(job.transport(), messagesOf(*world)),
      executor_(job) {
  const int size = world->size();
  sets_[kWorldSet] = world->core().options().members;
  if (rank_ == 0) {
    coordinator_.emplace(Coordinator::Options{.names = names_,
                                              .stallWarning = options_.stallWarning,
                                              .stallShutdown = options_.stallShutdown});
  }
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank_ || (rank_ != 0 && peer != 0)) continue;
    mailboxes_.push_back(std::make_unique<Mailbox>(*job.transport(), peer, messagesOf(*world)));
  }
  groups_[kWorldSet] = std::move(world);
}

NamedExchange::~NamedExchange() {
  {
    const MutexLock lock(mutex_);
    closing_ = true;
  }
  wake_.ring();
  if (thread_.joinable()) thread_.join();
}

Status NamedExchange::submit(Request request) {
  std::vector<Request> requests;
  requests.push_back(std::move(request));
  return submitAll(std::move(requests));
}

Status NamedExchange::submitGroup(std::vector<Request> requests) {
  if (requests.empty()) return status();
  return submitAll(std::move(requests));
}

Status NamedExchange::join(std::function<void(const Status& status, int lastRank)> done) {
  Request request;
  request.done = [done = std::move(done)](const Status& status,
                                          std::span<const std::int64_t> numbers) {
    done(status, status.ok() ? static_cast<int>(numbers.front()) : Status::kNoPeer);
  };
  Announcement what;
  what.key = {kOwnSet, kJoinName};
  what.kind = Kind::kJoin;
  return submitOwn(std::move(what), std::move(request));
}

Result<int> NamedExchange::addSet(std::vector<int> ranks) {
  Announcement what;
  what.key = {kOwnSet, kSetsName};
  what.kind = Kind::kAddSet;
  what.shape.assign(ranks.begin(), ranks.end());
  return call(std::move(what));
}

Status NamedExchange::removeSet(int set) {
  Announcement what;
  what.key = {kOwnSet, kSetsName};
  what.kind = Kind::kRemoveSet;
  what.root = set;
  return call(std::move(what)).status();
}

Status NamedExchange::refusal() const {
  if (!ended_.ok()) return ended_;
  if (joined_) {
    return {StatusCode::kInvalidArgument,
            "this rank has joined: nothing can be submitted before all others have, too"};
  }
  return {};
}

Status NamedExchange::submitAll(std::vector<Request> requests) {
  {
    const MutexLock lock(mutex_);
    COLLA_TRY(refusal());
    std::vector<Announcement> announcements;
    for (const Request& request : requests) {
      const auto set = sets_.find(request.set);
      if (set == sets_.end()) {
        return {StatusCode::kInvalidArgument,
                fmt::format("\"{}\": there is no process set {}", request.name, request.set)};
      }
      if (std::ranges::find(set->second, rank_) == set->second.end()) {
        return {StatusCode::kInvalidArgument,
                fmt::format("\"{}\": rank {} is not a member of process set {}", request.name,
                            rank_, request.set)};
      }
      if (request.set != requests.front().set) {
        return {StatusCode::kInvalidArgument,
                fmt::format("\"{}\": a group is of one process set, not of {} and {}", request.name,
                            requests.front().set, request.set)};
      }
      COLLA_TRY_ASSIGN(Announcement what, announce(request, set->second));
      if (requests.size() > 1) {
        what.group = {requests.front().name, static_cast<std::uint32_t>(requests.size())};
      }
      announcements.push_back(std::move(what));
    }
    COLLA_TRY(enqueue(std::move(announcements), std::move(requests)));
  }
  wake_.ring();
  return {};
}

Status NamedExchange::submitOwn(Announcement what, Request request) {
  {
    const MutexLock lock(mutex_);
    COLLA_TRY(refusal());
    const bool joins = what.kind == Kind::kJoin;
    std::vector<Announcement> announcements;
    announcements.push_back(std::move(what));
    std::vector<Request> requests;
    requests.push_back(std::move(request));
    COLLA_TRY(enqueue(std::move(announcements), std::move(requests)));
    joined_ |= joins;
  }
  wake_.ring();
  return {};
}

Status NamedExchange::enqueue(std::vector<Announcement> announcements,
                              std::vector<Request> requests) {
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Key& key = announcements[i].key;
    if (pending_.try_emplace(key, std::move(requests[i])).second) continue;
    for (std::size_t taken = 0; taken < i; ++taken) pending_.erase(announcements[taken].key);
    return {StatusCode::kInvalidArgument,
            fmt::format("duplicate name \"{}\": an operation of this name is under way on rank {} "
                        "already; wait for it, or choose another name",
                        key.name, rank_)};
  }
  std::ranges::move(announcements, std::back_inserter(outgoing_));
  return {};
}

Result<int> NamedExchange::call(Announcement what) {
  const MutexLock lock(calls_);
  // Shared: the thread may not be through with it yet when the result is there.
  const auto promise = std::make_shared<std::promise<Result<int>>>();
  Request request;
  request.done = [promise](const Status& status, std::span<const std::int64_t> numbers) {
    promise->set_value(status.ok() ? Result<int>(static_cast<int>(numbers.front()))
                                   : Result<int>(status));
  };
  COLLA_TRY(submitOwn(std::move(what), std::move(request)));
  return promise->get_future().get();
}

std::map<int, std::vector<int>> NamedExchange::sets() const {
  const MutexLock lock(mutex_);
  return sets_;
}

Status NamedExchange::status() const {
  const MutexLock lock(mutex_);
  return ended_;
}

Status NamedExchange::startTimeline(const std::string& path, bool markCycles) {
  return rank_ == 0 ? timeline_.start(path, markCycles) : Status();
}

Status NamedExchange::stopTimeline() { return timeline_.stop(); }

}  // namespace colla::named
