// The exchange's thread: reports and orders, and how it ends.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/metric_families.h"
#include "base/metrics.h"
#include "collective/group_core.h"
#include "named/exchange.h"
#include "named/fusion.h"
#include "transport/spin.h"

namespace colla::named {
namespace {

using namespace std::chrono_literals;

// How long a rank that leaves waits for the coordinator's word that nothing more is to be done.
constexpr auto kGoodbye = 5s;
// How long last words may take to leave.
constexpr auto kLastWords = 1s;

}  // namespace

void NamedExchange::serveOnThread() {
  const transport::BackgroundThread behindTheCaller;
  const Status end = runOnThread();
  tellEnd(end);
  finishAll(end);
}

// Until there is a reason to end, which is returned.
Status NamedExchange::runOnThread() {
  while (true) {
    COLLA_TRY(takeLocal());
    COLLA_TRY(takeMessages());
    if (coordinator_) COLLA_TRY(coordinate());
    wait();
  }
}

Status NamedExchange::takeLocal() {
  Report report;
  bool closing = false;
  {
    const MutexLock lock(mutex_);
    report.announcements.swap(outgoing_);
    closing = closing_;
  }
  if (closing) {
    report.end = {StatusCode::kCancelled,
                  fmt::format("{} has shut down its exchange", names_[rank_]), rank_};
    if (coordinator_) return report.end;
    if (goodbye_) {
      if (!goodbye_->expired()) return {};
      breakGroups(report.end);  // Somebody may wait for this rank in one of them.
      return report.end;
    }
    // Orders may be on their way that others carry out with this rank: the coordinator's word that
    // it ends comes behind them.
    goodbye_ = Deadline::after(kGoodbye);
  }
  if (coordinator_) {
    for (const Announcement& what : report.announcements) timeline_.announced(what, rank_);
    return coordinator_->take(rank_, std::move(report.announcements),
                              std::chrono::steady_clock::now());
  }
  if (!report.announcements.empty() || !report.end.ok()) mailboxes_.front()->send(encode(report));
  return {};
}

Status NamedExchange::takeMessages() {
  for (const auto& mailbox : mailboxes_) {
    while (true) {
      COLLA_TRY_ASSIGN(const auto message, mailbox->next());
      if (!message) break;
      if (coordinator_) {
        COLLA_TRY(takeReport(mailbox->peer(), *message));
      } else {
        COLLA_TRY_ASSIGN(const Orders orders, decodeOrders(*message));
        COLLA_TRY(carryOut(orders));
      }
    }
  }
  return {};
}

Status NamedExchange::takeReport(int rank, std::span<const std::byte> bytes) {
  auto report = decodeReport(bytes);
  if (!report.ok()) {
    return {report.status().code(), fmt::format("{}: {}", names_[rank], report.status().message()),
            rank};
  }
  COLLA_TRY(report->end);
  for (const Announcement& what : report->announcements) timeline_.announced(what, rank);
  return coordinator_->take(rank, std::move(report->announcements),
                            std::chrono::steady_clock::now());
}

Status NamedExchange::coordinate() {
  const TimePoint now = std::chrono::steady_clock::now();
  for (Decision& decision : coordinator_->decide()) {
    timeline_.decided(decision.what);
    if (held_.empty()) heldSince_ = now;
    held_.push_back(std::move(decision));
  }
  if (!held_.empty() && now >= heldSince_ + options_.cycle) {
    timeline_.cycle();
    Orders orders;
    orders.batches = planFusion(std::exchange(held_, {}), options_.fusionBytes);
    const auto bytes = encode(orders);
    for (const auto& mailbox : mailboxes_) mailbox->send(bytes);
    COLLA_TRY(carryOut(orders));
  }
  if (now < coordinator_->nextStall()) return {};
  const Coordinator::Stall stall = coordinator_->stalls(now);
  if (!stall.report.empty()) {
    metrics::Counter(metrics::family("colla_stalls_total")).add();
    if (options_.report) {
      options_.report(stall.report);
    } else {
      log::warn("{}", stall.report);
    }
  }
  return stall.end;
}

void NamedExchange::wait() {
  std::vector<transport::Request*> requests;
  for (const auto& mailbox : mailboxes_) requests.push_back(mailbox->pending());
  Deadline deadline = goodbye_.value_or(Deadline::never());
  if (coordinator_) {
    deadline = deadline.earlier(Deadline::at(coordinator_->nextStall()));
    if (!held_.empty()) deadline = deadline.earlier(Deadline::at(heldSince_ + options_.cycle));
  }
  wake_.wait(requests, deadline);
}

Status NamedExchange::carryOut(const Orders& orders) {
  for (const Batch& batch : orders.batches) COLLA_TRY(carryOut(batch));
  told_ = !orders.end.ok();
  return orders.end;
}

Status NamedExchange::carryOut(const Batch& batch) {
  const Decision& first = batch.front();
  if (!first.error.ok() || first.what.key.set == kOwnSet) return carryOutOwn(first);
  const auto group = groups_.find(first.what.key.set);
  if (group == groups_.end()) return {};  // Others' business.
  std::vector<Work> works;
  {
    const MutexLock lock(mutex_);
    for (const Decision& decision : batch) {
      const Kind kind = decision.what.kind;
      const bool zeros = joined_ && (kind == Kind::kAllreduce || kind == Kind::kBarrier);
      const auto it = pending_.find(decision.what.key);
      if (it == pending_.end() && !zeros) {
        return {StatusCode::kInternal,
                fmt::format("{} is to carry out {}, which was not submitted there", names_[rank_],
                            describe(decision.what)),
                rank_};
      }
      works.push_back({&decision, it == pending_.end() ? nullptr : &it->second});
    }
  }
  for (const Work& work : works) timeline_.began(work.decision->what, works.size());
  COLLA_TRY(executor_.run(*group->second, works));
  for (const Work& work : works) timeline_.ended(work.decision->what);
  for (const Work& work : works) {
    if (work.request != nullptr) finish(work.decision->what.key, work.outcome, work.received);
  }
  return {};
}

// Errors, and what changes the exchange itself.
Status NamedExchange::carryOutOwn(const Decision& decision) {
  const Announcement& what = decision.what;
  if (!decision.error.ok()) {
    if (std::ranges::find(decision.ranks, rank_) != decision.ranks.end()) {
      finish(what.key, decision.error, {});
    }
    return {};
  }
  if (what.kind == Kind::kAddSet) {
    const std::vector<int> ranks(what.shape.begin(), what.shape.end());
    if (std::ranges::find(ranks, rank_) != ranks.end()) {
      COLLA_TRY_ASSIGN(groups_[decision.number], groups_.at(kWorldSet)->subgroup(ranks));
    }
    const MutexLock lock(mutex_);
    sets_[decision.number] = ranks;
  } else if (what.kind == Kind::kRemoveSet) {
    groups_.erase(what.root);
    const MutexLock lock(mutex_);
    sets_.erase(what.root);
  } else {
    const MutexLock lock(mutex_);
    joined_ = false;
  }
  const std::int64_t number = decision.number;
  finish(what.key, {}, {&number, 1});
  return {};
}

void NamedExchange::tellEnd(const Status& end) {
  if (told_) return;
  const auto bytes = coordinator_ ? encode(Orders{.batches = {}, .end = end})
                                  : encode(Report{.announcements = {}, .end = end});
  for (const auto& mailbox : mailboxes_) mailbox->send(bytes);
  const Deadline deadline = Deadline::after(kLastWords);
  for (const auto& mailbox : mailboxes_) mailbox->flush(deadline);
}

void NamedExchange::breakGroups(const Status& why) {
  for (const auto& [set, group] : groups_) group->core().abort(why);
}

void NamedExchange::finish(const Key& key, const Status& status,
                           std::span<const std::int64_t> numbers) {
  std::map<Key, Request>::node_type node;
  {
    const MutexLock lock(mutex_);
    node = pending_.extract(key);
  }
  if (!node.empty()) node.mapped().done(status, numbers);
}

void NamedExchange::finishAll(const Status& end) {
  std::map<Key, Request> left;
  Status why = end;
  {
    const MutexLock lock(mutex_);
    if (closing_) why = {StatusCode::kCancelled, "the exchange was shut down"};
    ended_ = why;
    left.swap(pending_);
    outgoing_.clear();
  }
  for (auto& [key, request] : left) request.done(why, {});
}

}  // namespace colla::named
