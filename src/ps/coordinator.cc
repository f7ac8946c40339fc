#include "ps/coordinator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "optim/norm.h"

namespace colla::ps {

Coordinator::Coordinator(Options options)
    : options_(std::move(options)),
      workers_(options_.workers.size()),
      there_(static_cast<int>(options_.workers.size())),
      squares_(static_cast<std::size_t>(options_.servers)) {}

void Coordinator::declare(const PolicyOptions& policy, double clipNorm, std::vector<int> places) {
  policyOptions_ = policy;
  clipNorm_ = clipNorm;
  places_ = std::move(places);
}

void Coordinator::start(std::int64_t step, Statistics statistics) {
  step_ = step;
  statistics_ = std::move(statistics);
  policy_ = makePolicy(policyOptions_, step);
}

Coordinator::Orders Coordinator::finished(int worker, std::int64_t step, Finish finish,
                                          TimePoint now) {
  if (!policy_ || failed_) return {};
  Worker& w = workers_[worker];
  stop_ = std::max(stop_, finish.stop);
  plateau_ = std::min(plateau_, finish.plateau);
  if (worker == 0) snapshotAt_ = finish.snapshotAt;
  w.finish = std::move(finish);
  w.step = step;
  w.dropped = false;
  ++w.clock;
  return arrived(worker, step, now);
}

Coordinator::Orders Coordinator::reported(int worker, std::int64_t step, TimePoint now) {
  if (!policy_ || failed_ || worker < 0 || worker >= static_cast<int>(workers_.size())) return {};
  return arrived(worker, step, now);
}

// One more server has everything of a worker's step. With the last of them it has arrived.
Coordinator::Orders Coordinator::arrived(int worker, std::int64_t step, TimePoint now) {
  Worker& w = workers_[worker];
  if (w.gone || ++w.reports < options_.servers) return {};
  w.reports = 0;
  if (!w.finish) return {};
  return decide(policy_->arrived({worker, step, w.finish->empty}, now));
}

Coordinator::Orders Coordinator::gone(int worker, bool finished, TimePoint now) {
  Worker& w = workers_[worker];
  if (std::exchange(w.gone, true)) return {};
  --there_;
  if (failed_) return {};
  const std::string& name = options_.workers[worker];
  if (!policy_) {
    if (finished || there_ == 0) return {};
    return fail(fmt::format("{} is lost before the training began", name));
  }
  auto decisions = policy_->gone(worker, finished, now);
  if (decisions.ok()) return decide(*std::move(decisions));
  return fail(fmt::format("{} is lost: {}", name, decisions.status().message()));
}

Coordinator::Orders Coordinator::snapshot() {
  if (failed_) return {};
  held_.push_back({{}, /*snapshot=*/true});
  return orderHeld();
}

Coordinator::Orders Coordinator::decide(std::vector<Decision> decisions) {
  for (Decision& decision : decisions) held_.push_back({std::move(decision), false});
  return orderHeld();
}

Coordinator::Orders Coordinator::fail(std::string why) {
  failed_ = true;
  Order order = orderFor(Order::Kind::kFail);
  order.reason = std::move(why);
  return {std::move(order)};
}

// What can be ordered now: everything, unless the servers are still summing an update.
Coordinator::Orders Coordinator::orderHeld() {
  Orders orders;
  while (!held_.empty() && !summing_) {
    Held held = std::move(held_.front());
    held_.pop_front();
    if (held.snapshot) {
      orders.push_back(snapshotOrder());
    } else if (held.decision.take.empty()) {
      orders.push_back(complete(held.decision, Order::Kind::kRelease, {}));
    } else if (clipNorm_ == 0) {
      addUpdate(orders, complete(held.decision, Order::Kind::kUpdate, termsOf(held.decision)));
    } else {
      orders.push_back(orderFor(Order::Kind::kSum));
      orders.back().take = held.decision.take;
      orders.back().terms = termsOf(held.decision);
      orders.back().reason = fmt::format("step {} is clipped by all servers' norm", step_ + 1);
      summing_ = std::move(held.decision);
    }
  }
  return orders;
}

Coordinator::Orders Coordinator::squares(int server, Squares squares) {
  if (!summing_ || failed_) return {};
  squares_[server] = std::move(squares);
  if (!std::ranges::all_of(squares_, [](const auto& s) { return s.has_value(); })) return {};
  const Decision decision = *summing_;
  Terms terms = termsOf(decision);
  scale_ = clipScale(terms.gradScale);
  terms.gradScale *= scale_;
  for (auto& each : squares_) each.reset();
  summing_.reset();
  Orders orders;
  addUpdate(orders, complete(decision, Order::Kind::kApply, std::move(terms)));
  std::ranges::move(orderHeld(), std::back_inserter(orders));
  return orders;
}

// The numbers that every order carries, as they are now.
Order Coordinator::orderFor(Order::Kind kind) const {
  Order order;
  order.kind = kind;
  order.step = step_;
  order.samples = statistics_.samples;
  order.scale = scale_;
  order.stop = stop_;
  return order;
}

Order Coordinator::snapshotOrder() {
  snapshotAt_ = -1;  // The copy stays until worker 0, which reads it, has announced the next one.
  Order order = orderFor(Order::Kind::kSnapshot);
  order.reason = fmt::format("a checkpoint after step {}", step_);
  return order;
}

// The snapshot of a step comes right behind its update: no other worker is in between.
void Coordinator::addUpdate(Orders& orders, Order update) {
  orders.push_back(std::move(update));
  if (step_ == snapshotAt_) orders.push_back(snapshotOrder());
}

Order Coordinator::complete(const Decision& decision, Order::Kind kind, Terms terms) {
  for (const int worker : decision.take) {
    Worker& w = workers_[worker];
    w.late = step_ - w.step;
    ++statistics_.taken;
    statistics_.samples += w.finish->samples;
    ++statistics_.staleness[w.late];
  }
  std::string reason;
  for (const Drop& drop : decision.drop) {
    workers_[drop.worker].dropped = true;
    ++statistics_.dropped;
    reason = fmt::format("dropped the gradients of {} for step {}: their staleness is {}",
                         options_.workers[drop.worker], drop.step + 1, drop.late);
    news_.push_back(reason);
  }
  if (!decision.take.empty()) ++step_;
  Order order = orderFor(kind);
  order.take = decision.take;
  order.terms = std::move(terms);
  for (const int worker : decision.release) order.release.push_back(releaseOf(worker));
  order.reason = !reason.empty() ? std::move(reason)
                 : decision.take.empty()
                     ? fmt::format("step {} has no gradients to add", step_ + 1)
                     : fmt::format("step {} takes the gradients of {} of {} workers", step_,
                                   decision.take.size(), workers_.size());
  return order;
}

Order::Release Coordinator::releaseOf(int worker) {
  Worker& w = workers_[worker];
  std::int64_t slowest = w.clock;
  for (const Worker& other : workers_) {
    if (!other.gone) slowest = std::min(slowest, other.clock);
  }
  w.finish.reset();
  return {worker, w.late, w.clock - slowest, w.dropped};
}

Terms Coordinator::termsOf(const Decision& decision) const {
  Terms terms;
  terms.present.resize(places_.size());
  double share = 0;
  for (const int worker : decision.take) {
    const Finish& finish = *workers_[worker].finish;
    share += finish.share;
    terms.factor = finish.factor * plateau_;
    for (std::size_t entry = 0; entry < terms.present.size(); ++entry) {
      terms.present[entry] |= finish.present[entry];
    }
  }
  const bool all = decision.take.size() == workers_.size();
  const double whole = all || share <= 0 ? 1 : 1 / share;
  terms.meanScale = whole;
  terms.gradScale = decision.whole ? whole : 1;
  return terms;
}

// Adds in the order of the parameters, as a worker that has all gradients would.
double Coordinator::clipScale(double gradScale) const {
  Squares all;
  for (const auto& squares : squares_) all.add(*squares);
  std::map<int, double> sums;  // By the parameter's place.
  for (const auto& [entry, sum] : all.sums()) {
    if (entry >= 0 && entry < static_cast<int>(places_.size())) sums[places_[entry]] = sum;
  }
  for (const int worker : summing_->take) {
    for (const auto& [place, sum] : workers_[worker].finish->squares) sums[place] = sum;
  }
  double total = 0;
  for (const auto& [place, sum] : sums) total += sum;
  return optim::clipFactor(std::sqrt(total) * gradScale, clipNorm_);
}

TimePoint Coordinator::nextDeadline() const {
  const TimePoint tick = policy_ ? policy_->nextDeadline() : TimePoint::max();
  return waitingSince_ ? std::min(tick, *waitingSince_ + options_.timeout) : tick;
}

// Time shows who is a straggler, and which step never ends.
Coordinator::Orders Coordinator::tick(TimePoint now) {
  if (!policy_ || failed_) return {};
  Orders orders;
  if (now >= policy_->nextDeadline()) orders = decide(policy_->tick(now));
  const std::vector<int> missing = policy_->waitsFor();
  const bool some =
      std::ranges::any_of(workers_, [](const Worker& w) { return !w.gone && w.finish; });
  if (missing.empty() || !some) {
    waitingSince_.reset();
    return orders;
  }
  if (!waitingSince_) waitingSince_ = now;
  if (now - *waitingSince_ < options_.timeout) return orders;
  std::string names;
  for (const int worker : missing) {
    names += (names.empty() ? "" : ", ") + options_.workers[worker];
  }
  std::ranges::move(
      fail(fmt::format("step {} has waited {:.1f} s for {} (collective_timeout)", step_,
                       std::chrono::duration<double>(now - *waitingSince_).count(), names)),
      std::back_inserter(orders));
  return orders;
}

std::vector<std::string> Coordinator::takeNews() {
  std::vector<std::string> news = std::exchange(news_, {});
  if (policy_) std::ranges::move(policy_->takeNews(), std::back_inserter(news));
  return news;
}

}  // namespace colla::ps
