// What a server does with each ask of a worker or of another server.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "base/invalid.h"
#include "base/log.h"
#include "ps/server.h"

namespace colla::ps {

void Server::onAsk(Asked& asked) {
  const Status status = front_.isServer(asked.member) ? handleServer(asked) : handle(asked);
  if (!status.ok()) refuse(asked, status);
}

void Server::onLost(int member, const Status& why) {
  const std::string text = fmt::format("{} is lost: {}", front_.nameOf(member), why.message());
  if (!front_.isServer(member)) {
    if (workers_[member].gone) return;
    if (first()) log::warn("{}", text);
    return leave(member, /*finished=*/false);
  }
  here_ = 0;  // Nothing can be made good: those who wait see this server end.
  if (!failure_.empty()) return;
  Order failure;
  failure.kind = Order::Kind::kFail;
  failure.reason = text;
  if (first()) return order({failure});
  log::error("{}", text);
  carryOut(failure);
}

void Server::refuse(const Asked& to, const Status& why) {
  if (failure_.empty()) log::warn("refusing {}: {}", front_.nameOf(to.member), why.message());
  front_.refuse(to, why, now_.step);
}

Status Server::handle(Asked& from) {
  if (!failure_.empty() && from.ask.topic != Topic::kLeave) {
    return {StatusCode::kGroupBroken, failure_};
  }
  if (!declared() && from.ask.topic != Topic::kDeclare && from.ask.topic != Topic::kLeave) {
    return {StatusCode::kInvalidArgument, "nothing has been declared yet"};
  }
  switch (from.ask.topic) {
    case Topic::kDeclare:
      return declare(from);
    case Topic::kAttach:
      return attach(from);
    case Topic::kFill:
    case Topic::kFillRows:
      return fill(from);
    case Topic::kStart:
      return start(from);
    case Topic::kBegin:
      workers_[from.member].waits = from;
      if (started_) deliver({&from.member, 1});
      return {};
    case Topic::kOthers:
      others_ = from;
      answerLast();
      return {};
    case Topic::kPush:
      gradients_->push(from.member, from.ask.number, from.ask.step);
      metrics_.pushes.add();
      return {};
    case Topic::kPushRows:
      return pushRows(from);
    case Topic::kFinish:
      return finish(from);
    case Topic::kPullRows:
      return pullRows(from);
    case Topic::kSnapshot:
      return snapshot(from);
    case Topic::kFetch:
    case Topic::kFetchRows:
    case Topic::kFetchSteps:
      return fetch(from);
    case Topic::kStatistics:
      front_.answer(from, head(), encode(coordinator_ ? coordinator_->statistics() : Statistics()));
      return {};
    case Topic::kLeave:
      again_ = again_ || from.ask.number != kForGood;
      keeps_ = keeps_ || from.ask.number == kUntilNextEpoch;
      leave(from.member, /*finished=*/true);
      front_.answer(from, head());
      return {};
    default:
      return invalid("an ask of unknown topic {}", static_cast<int>(from.ask.topic));
  }
}

Status Server::handleServer(const Asked& from) {
  const TimePoint now = std::chrono::steady_clock::now();
  switch (from.ask.topic) {
    case Topic::kArrived:
      if (first()) order(coordinator_->reported(from.ask.number, from.ask.step, now));
      return {};
    case Topic::kSquares: {
      COLLA_TRY_ASSIGN(Squares squares, Squares::decode(from.payload));
      if (first()) {
        order(coordinator_->squares(front_.serverOf(from.member), std::move(squares)));
      }
      return {};
    }
    case Topic::kOrder: {
      const std::size_t entries = declared() ? holding_->layout().entries().size() : 0;
      COLLA_TRY_ASSIGN(const Order order, decodeOrder(from.payload, options_.workers, entries));
      if (!declared() && order.kind != Order::Kind::kFail) return invalid("an order too early");
      carryOut(order);
      return {};
    }
    case Topic::kLeave:
      front_.close(from.member);
      return {};
    default:
      return invalid("a server does not ask that");
  }
}

// The first worker's declaration counts for the epoch, and the others' must be equal. A model that
// was kept from the epoch before stays, if it is the same.
Status Server::declare(const Asked& from) {
  transport::Mapping keep;
  COLLA_TRY_ASSIGN(const auto payload, front_.payloadOf(from, keep));
  if (!declared()) {
    COLLA_TRY_ASSIGN(Declaration declaration, decodeDeclaration(payload));
    const Holding::Place place{.server = options_.rank,
                               .servers = options_.servers,
                               .workers = options_.workers,
                               .threads = options_.threads,
                               .worthSharing = options_.worthSharing};
    if (holding_) {
      COLLA_TRY_ASSIGN(kept_, holding_->redeclare(declaration, place));
    }
    if (!kept_) {
      holding_.reset();  // Before memory for the next one is needed.
      COLLA_TRY_ASSIGN(holding_, Holding::make(std::move(declaration), place));
    }
    const Declaration& declared = holding_->declaration();
    gradients_ =
        std::make_unique<Gradients>(holding_->layout(), holding_->shard(), holding_->pushPlan(),
                                    holding_->team(), options_.workers);
    if (first()) {
      std::vector<int> places;
      for (const Entry& entry : declared.entries) places.push_back(entry.order);
      coordinator_->declare(declared.policy, declared.clipNorm, std::move(places));
    }
    declaration_.assign(payload.begin(), payload.end());
    now_.step = holding_->step;
  } else if (!std::ranges::equal(payload, declaration_)) {
    return invalid(
        "{} declares another model, optimizer, policy or number of threads than those "
        "before it: all workers must run the same program with the same flags",
        front_.nameOf(from.member));
  }
  front_.answer(from, head());
  return {};
}

// The places of the worker's memory, one for parameters and one for each of its partial sums.
Status Server::attach(const Asked& from) {
  transport::Mapping keep;
  COLLA_TRY_ASSIGN(const auto payload, front_.payloadOf(from, keep));
  ByteReader reader(payload);
  std::vector<transport::Place> places;
  const auto count = reader.number<std::uint64_t>();
  for (std::uint64_t i = 0; i < count && reader.ok(); ++i) {
    transport::Place& place = places.emplace_back();
    place.region = reader.number<std::uint32_t>();
    place.offset = reader.number<std::uint64_t>();
  }
  const PushPlan& plan = holding_->pushPlan();
  const auto leaves = static_cast<std::size_t>(plan.tree().leavesOf(plan.sourceOf(from.member)));
  if (!reader.done() || places.size() != leaves + 1) {
    return invalid("{} places for {} partial sums", places.size(), leaves);
  }
  const std::size_t bytes = std::max<std::size_t>(holding_->layout().areaBytes(), 1);
  std::vector<transport::Mapping> areas;
  for (const transport::Place& place : places) {
    COLLA_TRY_ASSIGN(areas.emplace_back(),
                     front_.map(from.member, place, bytes, Deadline::after(options_.timeout)));
  }
  gradients_->attach(from.member, std::move(areas));
  front_.answer(from, head());
  return {};
}

Status Server::fill(const Asked& from) {
  if (from.member != 0 || started_) {
    return invalid("only worker 0 fills servers, before it starts them");
  }
  transport::Mapping keep;
  COLLA_TRY_ASSIGN(const auto payload, front_.payloadOf(from, keep));
  COLLA_TRY(holding_->fill(from.ask, payload));
  front_.answer(from, head());
  return {};
}

Status Server::start(const Asked& from) {
  transport::Mapping keep;
  COLLA_TRY_ASSIGN(const auto payload, front_.payloadOf(from, keep));
  if (from.member != 0 || started_) return invalid("only worker 0 starts servers, and once");
  if (from.ask.number == kGoOn) {
    if (!kept_) return invalid("there is no epoch of this model to go on from: fill the servers");
  } else {
    ByteReader reader(payload);
    const auto steps = reader.list<std::int64_t>();
    if (!reader.done() || steps.size() != holding_->shard().steps().size()) {
      return invalid("damaged steps");
    }
    std::ranges::copy(steps, holding_->shard().steps().begin());
    holding_->step = from.ask.step;
    holding_->statistics = {};
  }
  started_ = true;
  now_.step = holding_->step;
  now_.samples = holding_->statistics.samples;
  if (first()) coordinator_->start(holding_->step, holding_->statistics);
  front_.answer(from, head());
  std::vector<int> waiting;
  for (int worker = 0; worker < options_.workers; ++worker) {
    if (workers_[worker].waits) waiting.push_back(worker);
  }
  deliver(waiting);
  return {};
}

Status Server::pushRows(Asked& from) {
  transport::Mapping keep;
  COLLA_TRY_ASSIGN(const auto payload, front_.payloadOf(from, keep));
  metrics_.pushes.add();
  metrics_.pushedRows.add(gradients_->pushRows(from.member, from.ask.number, from.ask.step, payload,
                                               std::move(from.payload), std::move(keep)));
  return {};
}

Status Server::finish(const Asked& from) {
  transport::Mapping keep;
  COLLA_TRY_ASSIGN(const auto payload, front_.payloadOf(from, keep));
  COLLA_TRY_ASSIGN(Finish finish, decodeFinish(payload, holding_->layout().entries().size()));
  COLLA_TRY(gradients_->end(from.member, finish.empty));
  if (!started_) return invalid("a step ends before worker 0 has started the servers");
  workers_[from.member].waits = from;
  if (first()) {
    order(coordinator_->finished(from.member, from.ask.step, std::move(finish),
                                 std::chrono::steady_clock::now()));
  } else {
    front_.tell(0, {.topic = Topic::kArrived, .number = from.member, .step = from.ask.step});
  }
  return {};
}

Status Server::pullRows(const Asked& from) {
  transport::Mapping keep;
  COLLA_TRY_ASSIGN(const auto payload, front_.payloadOf(from, keep));
  if (!holding_->layout().isTable(from.ask.number)) {
    return invalid("entry {} is no table", from.ask.number);
  }
  const std::size_t width = holding_->layout().entries()[from.ask.number].width();
  const std::size_t numbers = from.ask.count * sizeof(std::int64_t);
  const std::size_t bytes = from.ask.count * width * sizeof(float);
  const bool sends = keep.bytes.empty();
  if (payload.size() != (sends ? numbers : numbers + bytes)) {
    return invalid("damaged numbers of rows");
  }
  std::vector<std::byte> sent(sends ? bytes : 0);
  const std::span<std::byte> out = sends ? std::span(sent) : keep.bytes.subspan(numbers);
  COLLA_TRY(holding_->readRows(from.ask, payload, out));
  metrics_.pulls.add();
  metrics_.pulledRows.add(from.ask.count);
  front_.answer(from, head(), std::move(sent));
  return {};
}

Status Server::snapshot(const Asked& from) {
  if (!first()) return invalid("the first server takes snapshots");
  if (holding_->snapshotStep() == from.ask.step) {
    front_.answer(from, {.step = from.ask.step});
    return {};
  }
  deferred_.push_back(from);
  order(coordinator_->snapshot());
  return {};
}

Status Server::fetch(const Asked& from) {
  const auto taken = holding_->snapshotStep();
  if (!taken || *taken < from.ask.step) {
    deferred_.push_back(from);  // The order to take it is on its way.
    return {};
  }
  COLLA_TRY_ASSIGN(auto bytes, holding_->readSnapshot(from.ask));
  front_.answer(from, {.step = *taken}, std::move(bytes));
  return {};
}

void Server::leave(int worker, bool finished) {
  if (std::exchange(workers_[worker].gone, true)) return;
  metrics_.workers.set(static_cast<std::uint64_t>(--here_));
  workers_[worker].waits.reset();
  if (!finished) front_.close(worker);
  answerLast();
  if (!first() || !failure_.empty()) return;  // What it means is the first server's to say.
  order(coordinator_->gone(worker, finished, std::chrono::steady_clock::now()));
}

// Whoever waits for all others to be gone gets the parameters then.
void Server::answerLast() {
  if (!others_ || here_ != 1 || !failure_.empty()) return;
  const int last = others_->member;
  workers_[last].waits = std::exchange(others_, std::nullopt);
  deliver({&last, 1});
}

}  // namespace colla::ps
