// What the servers do together: the first one asks the policy, all of them carry out.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/log.h"
#include "optim/norm.h"
#include "ps/server.h"
#include "ps/server_worker.h"

namespace colla::ps {
// One more server has everything of a worker's step. With the last of them it has arrived.
void Server::arrived(int worker, std::int64_t step) {
  if (!policy_ || worker < 0 || worker >= options_.workers || workers_[worker].gone) return;
  if (++reports_[worker] < options_.servers) return;
  reports_[worker] = 0;
  const Worker& w = workers_[worker];
  decide(policy_->arrived({worker, step, w.finish && w.finish->empty},
                          std::chrono::steady_clock::now()));
}

void Server::gone(int worker, bool finished) {
  Worker& w = workers_[worker];
  if (w.gone) return;
  w.gone = true;
  --here_;
  w.waits.reset();
  for (const auto& inbox : inboxes_) {
    if (inbox->peer() == worker && !finished) inbox->close();
  }
  answerLast();
  if (!first() || !failure_.empty()) return;  // What it means is the first server's to say.
  if (!policy_) {
    if (!finished && here_ > 0) {
      fail(fmt::format("{} is lost before the training began", nameOf(worker)));
    }
    return;
  }
  auto decisions = policy_->gone(worker, finished, std::chrono::steady_clock::now());
  if (decisions.ok()) return decide(*std::move(decisions));
  fail(fmt::format("{} is lost: {}", nameOf(worker), decisions.status().message()));
}

void Server::answerLast() {
  if (!others_ || here_ != 1 || !failure_.empty()) return;
  const int last = others_->peer;
  workers_[last].waits = std::exchange(others_, std::nullopt);
  deliver({&last, 1});
}

void Server::decide(std::vector<Decision> decisions) {
  for (const std::string& news : policy_->takeNews()) log::info("{}", news);
  for (Decision& decision : decisions) order({std::move(decision), false, {}});
}

void Server::fail(const std::string& why) {
  if (!failure_.empty()) return;
  log::error("{}", why);
  Order last;
  last.failure = why;
  order(std::move(last));
}

void Server::tell(int server, Ask ask, std::vector<std::byte> payload) {
  const std::uint32_t sequence = serverSequences_[server]++;
  ask.bytes = payload.size();
  outbox_.send(peerOfServer(server), envelopeOf(serverChannel(), sequence, kAskStep), encode(ask));
  if (payload.empty()) return;
  outbox_.send(peerOfServer(server), envelopeOf(serverChannel(), sequence, kPayloadStep),
               std::move(payload));
}

// Everybody carries it out, in the order in which the first server says so.
void Server::order(Order order) {
  if (first() && options_.servers > 1) {
    const std::vector<std::byte> bytes = encode(order);
    for (int server = 1; server < options_.servers; ++server) {
      tell(server, {.topic = Topic::kDecision}, bytes);
    }
  }
  orders_.push_back(std::move(order));
  work();
}

void Server::work() {
  while (!orders_.empty()) {
    if (!underWay_) begin(orders_.front());
    if (underWay_ && !scale()) return;
    const Order done = std::move(orders_.front());
    orders_.pop_front();
    complete(done);
  }
}

// Makes the update, or (to clip it) the sums.
void Server::begin(const Order& order) {
  if (order.decision.take.empty()) return;
  const Terms terms = termsOf(order);
  const std::vector<int>& take = order.decision.take;
  const collective::SumTree& tree = shard_->tree();
  const Shard::Leaves leaves = [&](int block, std::span<const std::byte*> out) {
    std::ranges::fill(out, nullptr);
    for (const int worker : take) {
      for (int leaf = 0; leaf < tree.leavesOf(worker); ++leaf) {
        out[tree.firstLeaf(worker) + leaf] = gradientOf(worker, block, leaf);
      }
    }
  };
  const Shard::RowLeaves rows = [&](int entry, std::span<collective::RowsView> out) {
    for (const int worker : take) {
      const auto found = workers_[worker].rows.find(entry);
      if (found == workers_[worker].rows.end()) continue;
      for (int leaf = 0; leaf < tree.leavesOf(worker); ++leaf) {
        const PushedRows& pushed = found->second.leaves[leaf];
        out[tree.firstLeaf(worker) + leaf] = {pushed.rows, pushed.values};
      }
    }
  };
  if (job_->clipNorm == 0) {
    handout_ = handoutTo(order.decision.release);
    shard_->update(terms, leaves, rows, sinksOf(handout_));
    return;
  }
  Squares squares = shard_->sum(terms, leaves, rows);
  underWay_ = true;
  if (first()) {
    squares_[0] = std::move(squares);
  } else {
    tell(0, {.topic = Topic::kSquares}, squares.encode());
  }
}

// Applies what was summed, once it is known by what to multiply it.
bool Server::scale() {
  if (first()) {
    if (!std::ranges::all_of(squares_, [](const auto& s) { return s.has_value(); })) return false;
    scaleOrdered_ = clipScale();
    for (auto& squares : squares_) squares.reset();
    for (int server = 1; server < options_.servers; ++server) {
      tell(server, {.topic = Topic::kScale, .step = std::bit_cast<std::int64_t>(*scaleOrdered_)});
    }
  }
  if (!scaleOrdered_) return false;
  Terms terms = termsOf(orders_.front());
  scale_ = *std::exchange(scaleOrdered_, std::nullopt);
  terms.gradScale *= scale_;
  handout_ = handoutTo(orders_.front().decision.release);
  shard_->applySums(terms, sinksOf(handout_));
  underWay_ = false;
  return true;
}

Terms Server::termsOf(const Order& order) const {
  Terms terms;
  terms.present.resize(layout_->entries().size());
  double share = 0;
  for (const int worker : order.decision.take) {
    const Finish& finish = *workers_[worker].finish;
    share += finish.share;
    terms.factor = finish.factor;
    terms.bytes += shard_->bytes() * static_cast<std::size_t>(shard_->tree().leavesOf(worker));
    for (const auto& [entry, pushed] : workers_[worker].rows) {
      for (const PushedRows& leaf : pushed.leaves) terms.bytes += leaf.values.size_bytes();
    }
    for (std::size_t entry = 0; entry < terms.present.size(); ++entry) {
      terms.present[entry] |= finish.present[entry];
    }
  }
  const bool all = static_cast<int>(order.decision.take.size()) == options_.workers;
  const double whole = all || share <= 0 ? 1 : 1 / share;
  terms.meanScale = whole;
  terms.gradScale = order.decision.whole ? whole : 1;
  return terms;
}

// In the order of the parameters, as a worker that has all gradients would do it.
double Server::clipScale() const {
  Squares all;
  for (const auto& squares : squares_) all.add(*squares);
  std::map<int, double> sums;  // By the parameters' order.
  for (const auto& [entry, sum] : all.sums()) sums[layout_->entries()[entry].order] = sum;
  for (const int worker : orders_.front().decision.take) {
    for (const auto& [order, sum] : workers_[worker].finish->squares) sums[order] = sum;
  }
  double total = 0;
  for (const auto& [order, sum] : sums) total += sum;
  return optim::clipFactor(std::sqrt(total) * termsOf(orders_.front()).gradScale, job_->clipNorm);
}

void Server::complete(const Order& order) {
  if (!order.failure.empty()) {
    failure_ = order.failure;
    for (Worker& worker : workers_) {
      if (worker.waits)
        refuse(*std::exchange(worker.waits, std::nullopt), {StatusCode::kGroupBroken, failure_});
    }
    if (others_) deferred_.push_back(*std::exchange(others_, std::nullopt));
    for (const Asked& asked : std::exchange(deferred_, {})) {
      refuse(asked, {StatusCode::kGroupBroken, failure_});
    }
    return;
  }
  for (const int worker : order.decision.take) {
    Worker& w = workers_[worker];
    w.late = step_ - w.step;
    ++statistics_.taken;
    statistics_.samples += w.finish->samples;
    ++statistics_.staleness[w.late];
  }
  for (const Drop& drop : order.decision.drop) {
    workers_[drop.worker].dropped = true;
    ++statistics_.dropped;
    if (first()) {
      log::info("dropped the gradients of {} for step {}: {} update{} late", nameOf(drop.worker),
                drop.step + 1, drop.late, drop.late == 1 ? "" : "s");
    }
  }
  if (!order.decision.take.empty()) {
    ++step_;
  } else if (!order.decision.release.empty()) {
    handout_ = handoutTo(order.decision.release);
    shard_->handOut(sinksOf(handout_));
  }
  for (const int worker : order.decision.release) {
    Answer head;
    head.dropped = workers_[worker].dropped;
    head.late = workers_[worker].late;
    release(worker, handout_, head);
  }
  handout_ = {};
  if (order.snapshot) takeSnapshot();
}

void Server::takeSnapshot() {
  snapshot_ = std::make_unique<Snapshot>();
  snapshot_->step = step_;
  snapshot_->steps.assign(shard_->steps().begin(), shard_->steps().end());
  for (int slot = -1; slot < shard_->slots(); ++slot) {
    for (const int number : shard_->blocks()) {
      const auto bytes = shard_->block(number, slot);
      snapshot_->blocks[number].emplace_back(bytes.begin(), bytes.end());
    }
    for (const int number : shard_->partitions()) {
      const auto bytes = std::as_bytes(shard_->partition(number, slot));
      snapshot_->partitions[number].emplace_back(bytes.begin(), bytes.end());
    }
  }
  for (const Asked& asked : std::exchange(deferred_, {})) {
    if (asked.ask.topic == Topic::kSnapshot) {
      answer(asked, {.step = step_});
    } else if (const Status status = fetch(asked); !status.ok()) {
      refuse(asked, status);
    }
  }
}

}  // namespace colla::ps
