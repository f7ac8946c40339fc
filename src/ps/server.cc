// A server's life, and how it carries orders out.
#include "ps/server.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace colla::ps {
namespace {

using namespace std::chrono_literals;

constexpr auto kLastWords = 2s;

}  // namespace

Server::Server(ServerOptions options, std::unique_ptr<Holding> kept)
    : options_(std::move(options)),
      holding_(std::move(kept)),
      front_({.transport = options_.transport,
              .rank = options_.rank,
              .servers = options_.servers,
              .workers = options_.workers,
              .recorder = options_.recorder,
              .names = options_.names,
              .peers = options_.peers,
              .life = options_.life},
             [this](int worker, const Ask& ask) -> Result<std::vector<std::span<std::byte>>> {
               if (declared()) return gradients_->placesFor(worker, ask.number);
               return {StatusCode::kInvalidArgument, "nothing has been declared yet"};
             }),
      workers_(static_cast<std::size_t>(options_.workers)),
      here_(options_.workers) {
  metrics_.workers.set(static_cast<std::uint64_t>(here_));
  if (!first()) return;
  Coordinator::Options coordinator{.servers = options_.servers, .timeout = options_.timeout};
  for (int worker = 0; worker < options_.workers; ++worker) {
    coordinator.workers.push_back(front_.nameOf(worker));
  }
  coordinator_.emplace(std::move(coordinator));
}

Server::~Server() = default;

Status Server::run() {
  const ServerFront::OnAsk onAsk = [this](Asked& asked) { this->onAsk(asked); };
  const ServerFront::OnLost onLost = [this](int member, const Status& why) {
    this->onLost(member, why);
  };
  while (here_ > 0) {
    front_.wait(coordinator_ ? coordinator_->nextDeadline() : TimePoint::max());
    front_.take(onAsk, onLost);
    if (declared()) gradients_->check();
    front_.sweep();
    if (coordinator_ && failure_.empty()) {
      order(coordinator_->tick(std::chrono::steady_clock::now()));
    }
  }
  // Another server may still wait for the last worker's good-bye: it need not miss this one.
  if (failure_.empty() && !again_) front_.bidFarewell();
  front_.flush(Deadline::after(kLastWords));
  if (failure_.empty()) return {};
  return {StatusCode::kGroupBroken, failure_};
}

std::unique_ptr<Holding> Server::takeKept() {
  const bool neverFilled = declared() && !kept_ && !started_;
  if (!keeps_ || neverFilled || !failure_.empty()) return nullptr;
  gradients_.reset();
  if (started_) holding_->step = now_.step;
  if (started_ && coordinator_) holding_->statistics = coordinator_->statistics();
  return std::move(holding_);
}

// Every server carries out the same orders, in the order in which the first one gives them.
void Server::order(const Coordinator::Orders& orders) {
  for (const std::string& news : coordinator_->takeNews()) log::info("{}", news);
  for (const Order& order : orders) {
    if (order.kind == Order::Kind::kFail) log::error("{}", order.reason);
    if (options_.servers > 1) {
      const std::vector<std::byte> bytes = encode(order);
      for (int server = 1; server < options_.servers; ++server) {
        front_.tell(server, {.topic = Topic::kOrder}, bytes);
      }
    }
    carryOut(order);
  }
}

void Server::carryOut(const Order& order) {
  if (order.kind == Order::Kind::kFail) return giveUp(order.reason);
  if (order.kind == Order::Kind::kSnapshot) return takeSnapshot();
  Shard& shard = holding_->shard();
  Terms terms = order.terms;
  terms.bytes = gradients_->bytesOf(order.take);
  const Shard::Leaves leaves = gradients_->leaves(order.take);
  const Shard::RowLeaves rows = gradients_->rows(order.take);
  if (order.kind != Order::Kind::kApply) metrics_.foldedBytes.add(terms.bytes);
  if (order.kind == Order::Kind::kSum) return report(shard.sum(terms, leaves, rows));

  std::vector<int> released;
  for (const Order::Release& release : order.release) released.push_back(release.worker);
  const Handout handout = handoutTo(released);
  const Shard::Sinks sinks = sinksOf(handout);
  if (order.kind == Order::Kind::kUpdate || order.kind == Order::Kind::kApply) {
    metrics_.folds.add();
  }
  if (order.kind == Order::Kind::kUpdate) {
    shard.update(terms, leaves, rows, sinks);
  } else if (order.kind == Order::Kind::kApply) {
    shard.applySums(terms, sinks);
  } else if (!released.empty()) {
    shard.handOut(sinks);
  }
  now_.step = order.step;
  now_.samples = order.samples;
  now_.scale = order.scale;
  now_.stop = order.stop;
  for (const Order::Release& release : order.release) {
    if (release.dropped) {
      metrics_.dropped.add();
    } else {
      metrics_.staleness.observe(static_cast<std::uint64_t>(release.late));
    }
    this->release(release, handout);
  }
}

// What the gradients' sums have in squares, for the norm that all servers clip by.
void Server::report(Squares squares) {
  if (first()) return order(coordinator_->squares(0, std::move(squares)));
  front_.tell(0, {.topic = Topic::kSquares}, squares.encode());
}

void Server::giveUp(const std::string& why) {
  failure_ = why;
  const Status status(StatusCode::kGroupBroken, failure_);
  for (Worker& worker : workers_) {
    if (worker.waits) refuse(*std::exchange(worker.waits, std::nullopt), status);
  }
  if (others_) refuse(*std::exchange(others_, std::nullopt), status);
  for (const Asked& asked : std::exchange(deferred_, {})) refuse(asked, status);
}

void Server::takeSnapshot() {
  holding_->takeSnapshot(now_.step);
  for (const Asked& asked : std::exchange(deferred_, {})) {
    if (asked.ask.topic == Topic::kSnapshot) {
      front_.answer(asked, head());
    } else if (const Status status = fetch(asked); !status.ok()) {
      refuse(asked, status);
    }
  }
}

// For those of `workers` that wait.
Server::Handout Server::handoutTo(std::span<const int> workers) {
  Handout handout;
  for (const int worker : workers) {
    if (!workers_[worker].waits) continue;  // It is gone.
    if (std::byte* const area = gradients_->areaOf(worker)) {
      handout.areas.push_back(area);
    } else if (!handout.parcel) {
      handout.parcel = std::make_shared<std::map<int, AlignedBytes>>();
      for (const int block : holding_->shard().blocks()) {
        handout.parcel->emplace(block, holding_->layout().blocks()[block].bytes);
      }
    }
  }
  return handout;
}

// `handout` outlives it.
Shard::Sinks Server::sinksOf(const Handout& handout) const {
  return [&layout = holding_->layout(), &handout](int block, std::vector<std::byte*>& sinks) {
    for (std::byte* const area : handout.areas) {
      sinks.push_back(area + layout.blocks()[block].offset);
    }
    if (handout.parcel) sinks.push_back(handout.parcel->at(block).bytes().data());
  };
}

// The parameters as they are.
void Server::deliver(std::span<const int> workers) {
  const Handout handout = handoutTo(workers);
  holding_->shard().handOut(sinksOf(handout));
  for (const int worker : workers) release({.worker = worker}, handout);
}

// Tells a worker that its parameters are there, and what became of its gradients.
void Server::release(const Order::Release& what, const Handout& handout) {
  Worker& worker = workers_[what.worker];
  if (!worker.waits) return;  // It is gone.
  const Asked to = *std::exchange(worker.waits, std::nullopt);
  gradients_->forget(what.worker);
  metrics_.pulls.add();
  Answer head = now_;
  head.late = what.late;
  head.behind = what.behind;
  head.dropped = what.dropped;
  if (gradients_->areaOf(what.worker) != nullptr) return front_.answer(to, head);
  // What the next forward needs first goes first.
  std::vector<std::span<const std::byte>> parts;
  const std::span<const int> blocks = holding_->shard().blocks();
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
    parts.emplace_back(handout.parcel->at(*block).bytes());
  }
  front_.answer(to, head, parts, handout.parcel);
}

}  // namespace colla::ps
