#include "named/exchange.h"

#include <utility>

#include "named/core.h"

namespace colla::named {

Result<std::unique_ptr<Exchange>> Exchange::create(Job& job, Options options) {
  COLLA_TRY_ASSIGN(auto core, Core::create(job, std::move(options)));
  return std::unique_ptr<Exchange>(new Exchange(std::move(core)));
}

Exchange::Exchange(std::unique_ptr<Core> core) : core_(std::move(core)) {}
Exchange::~Exchange() = default;

Status Exchange::submit(Request request) {
  std::vector<Request> requests;
  requests.push_back(std::move(request));
  return core_->submit(std::move(requests));
}

Status Exchange::submitGroup(std::vector<Request> requests) {
  if (requests.empty()) return core_->status();
  return core_->submit(std::move(requests));
}

Status Exchange::join(std::function<void(const Status& status, int lastRank)> done) {
  Request request;
  request.done = [done = std::move(done)](const Status& status,
                                          std::span<const std::int64_t> numbers) {
    done(status, status.ok() ? static_cast<int>(numbers.front()) : Status::kNoPeer);
  };
  Announcement what;
  what.key = {kOwnSet, kJoinName};
  what.kind = Kind::kJoin;
  return core_->submitOwn(std::move(what), std::move(request));
}

Result<int> Exchange::addSet(std::vector<int> ranks) {
  Announcement what;
  what.key = {kOwnSet, kSetsName};
  what.kind = Kind::kAddSet;
  what.shape.assign(ranks.begin(), ranks.end());
  return core_->call(std::move(what));
}

Status Exchange::removeSet(int set) {
  Announcement what;
  what.key = {kOwnSet, kSetsName};
  what.kind = Kind::kRemoveSet;
  what.root = set;
  return core_->call(std::move(what)).status();
}

std::map<int, std::vector<int>> Exchange::sets() const { return core_->sets(); }

Status Exchange::startTimeline(const std::string& path, bool markCycles) {
  return core_->rank() == 0 ? core_->timeline().start(path, markCycles) : Status();
}

Status Exchange::stopTimeline() { return core_->timeline().stop(); }

Status Exchange::status() const { return core_->status(); }

}  // namespace colla::named
