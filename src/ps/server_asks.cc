// What a worker asks a server for.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "base/log.h"
#include "ps/finite.h"
#include "ps/server.h"
#include "ps/server_worker.h"

namespace colla::ps {
namespace {

template <typename... Args>
Status wrong(fmt::format_string<Args...> format, Args&&... args) {
  return {StatusCode::kInvalidArgument, fmt::format(format, std::forward<Args>(args)...)};
}

}  // namespace

Status Server::declare(const Asked& from) {
  transport::Mapping keep;
  COLLA_TRY_ASSIGN(const auto payload, payloadOf(from, keep));
  if (!declared()) {
    COLLA_TRY_ASSIGN(Declaration declaration, decodeDeclaration(payload));
    COLLA_TRY(validate(declaration.policy));
    if (declaration.policy.workers != options_.workers ||
        declaration.layout.servers != options_.servers) {
      return wrong("it counts {} workers and {} servers, but the job has {} and {}",
                   declaration.policy.workers, declaration.layout.servers, options_.workers,
                   options_.servers);
    }
    COLLA_TRY_ASSIGN(const SliceMap map, SliceMap::of(declaration.firstSlices));
    if (map.workers() != options_.workers)
      return wrong("its slices are for {} workers", map.workers());
    COLLA_TRY_ASSIGN(optim::UpdateRule rule, optim::UpdateRule::make(declaration.optimizer));
    COLLA_TRY_ASSIGN(Layout layout, Layout::make(declaration.entries, declaration.layout));
    layout_ = std::make_unique<Layout>(std::move(layout));
    shard_ = std::make_unique<Shard>(*layout_, options_.rank, std::move(rule), map, team_);
    job_ = std::move(declaration);
    declaration_.assign(payload.begin(), payload.end());
  } else if (!std::ranges::equal(payload, declaration_)) {
    return wrong(
        "{} declares another model, optimizer, policy or number of threads than those "
        "before it: all workers must run the same program with the same flags",
        nameOf(from.peer));
  }
  workers_[from.peer].declared = true;
  answer(from, {.step = step_});
  return {};
}

// The places of the worker's memory, one for parameters and one for each of its partial sums.
Status Server::attach(const Asked& from) {
  transport::Mapping keep;
  COLLA_TRY_ASSIGN(const auto payload, payloadOf(from, keep));
  ByteReader reader(payload);
  std::vector<transport::Place> places;
  const auto count = reader.number<std::uint64_t>();
  for (std::uint64_t i = 0; i < count && reader.ok(); ++i) {
    transport::Place& place = places.emplace_back();
    place.region = reader.number<std::uint32_t>();
    place.offset = reader.number<std::uint64_t>();
  }
  const auto leaves = static_cast<std::size_t>(shard_->tree().leavesOf(from.peer));
  transport::SharedMemory* const memory = transport_.sharedMemory();
  if (!reader.done() || places.size() != leaves + 1 || memory == nullptr) {
    return wrong("{} places for {} partial sums", places.size(), leaves);
  }
  std::vector<transport::Mapping> areas;
  for (const transport::Place& place : places) {
    COLLA_TRY_ASSIGN(areas.emplace_back(),
                     memory->map(from.peer, place, std::max<std::size_t>(layout_->areaBytes(), 1),
                                 Deadline::after(options_.timeout)));
  }
  workers_[from.peer].areas = std::move(areas);
  answer(from, {.step = step_});
  return {};
}

Status Server::fill(const Asked& from) {
  if (from.peer != 0 || started_)
    return wrong("only worker 0 fills servers, before it starts them");
  transport::Mapping keep;
  COLLA_TRY_ASSIGN(const auto payload, payloadOf(from, keep));
  const Ask& ask = from.ask;
  const bool rows = ask.topic == Topic::kFillRows;
  const auto own = rows ? shard_->partitions() : shard_->blocks();
  if (ask.slot < -1 || ask.slot >= shard_->slots() ||
      !std::ranges::binary_search(own, ask.number)) {
    return wrong("{} {}, slot {} is not here", rows ? "partition" : "block", ask.number, ask.slot);
  }
  std::span<std::byte> target;
  if (rows) {
    const std::size_t width =
        layout_->entries()[layout_->partitions()[ask.number].entry].width() * sizeof(float);
    const auto all = std::as_writable_bytes(shard_->partition(ask.number, ask.slot));
    if (ask.first < 0 || static_cast<std::size_t>(ask.first) > all.size() / width) {
      return wrong("row {} of partition {}", ask.first, ask.number);
    }
    target = all.subspan(static_cast<std::size_t>(ask.first) * width);
    if (payload.size() > target.size()) return wrong("too many rows of partition {}", ask.number);
    target = target.first(payload.size());
  } else {
    target = shard_->block(ask.number, ask.slot);
    if (payload.size() != target.size()) return wrong("block {} has another size", ask.number);
  }
  std::memcpy(target.data(), payload.data(), payload.size());
  answer(from, {.step = step_});
  return {};
}

Status Server::start(const Asked& from) {
  transport::Mapping keep;
  COLLA_TRY_ASSIGN(const auto payload, payloadOf(from, keep));
  ByteReader reader(payload);
  const auto steps = reader.list<std::int64_t>();
  if (from.peer != 0 || started_) return wrong("only worker 0 starts servers, and once");
  if (!reader.done() || steps.size() != shard_->steps().size()) return wrong("damaged steps");
  std::ranges::copy(steps, shard_->steps().begin());
  started_ = true;
  step_ = from.ask.step;
  if (first()) policy_ = makePolicy(job_->policy, step_);
  answer(from, {.step = step_});
  std::vector<int> waiting;
  for (int worker = 0; worker < options_.workers; ++worker) {
    if (workers_[worker].waits) waiting.push_back(worker);
  }
  deliver(waiting);
  return {};
}

// What has come is looked at together: see checkPushed().
void Server::push(int peer, const Ask& ask) {
  workers_[peer].pushed.insert(ask.number);
  unchecked_.push_back({peer, ask.number, ask.step});
}

// A number that is not finite would spread into everybody's parameters: no update is made of a
// gradient before all of it has passed.
void Server::checkPushed() {
  std::vector<Status> found(unchecked_.size());
  std::size_t bytes = 0;
  for (const Pushed& pushed : unchecked_) bytes += layout_->blocks()[pushed.block].bytes;
  team_.forEach(unchecked_.size(), bytes, [&](std::size_t i) {
    const Pushed& pushed = unchecked_[i];
    found[i] = check(pushed.peer, pushed.block, pushed.step);
  });
  for (std::size_t i = 0; i < found.size(); ++i) {
    Status& refusal = workers_[unchecked_[i].peer].refusal;
    if (refusal.ok()) refusal = std::move(found[i]);
  }
  unchecked_.clear();
}

Status Server::check(int peer, int block, std::int64_t step) const {
  const Block& b = layout_->blocks()[block];
  for (int leaf = 0; leaf < shard_->tree().leavesOf(peer); ++leaf) {
    const std::byte* const base = gradientOf(peer, block, leaf);
    for (const Piece& piece : b.pieces) {
      const Entry& entry = layout_->entries()[piece.entry];
      if (entry.kind != Kind::kParameter) continue;
      const auto bad = firstNotFinite(base + piece.offset - b.offset, piece.count, entry.type);
      if (bad) {
        return wrong("the gradient of \"{}\" is not finite at element {} in step {}", entry.name,
                     piece.begin + *bad, step + 1);
      }
    }
  }
  return {};
}

const std::byte* Server::gradientOf(int peer, int block, int leaf) const {
  const Worker& worker = workers_[peer];
  return worker.areas.empty()
             ? worker.staged.at(block)[leaf].bytes().data()
             : worker.areas[leaf + 1].bytes.data() + layout_->blocks()[block].offset;
}

// Values stay where they lie until the step is over; the numbers that they are found by are copied.
Status Server::pushRows(Asked& from) {
  Worker& worker = workers_[from.peer];
  const int entry = from.ask.number;
  if (entry < 0 || entry >= static_cast<int>(layout_->entries().size()) ||
      layout_->entries()[entry].kind != Kind::kRows) {
    worker.refusal = wrong("entry {} is no table", entry);
    return {};
  }
  const Entry& table = layout_->entries()[entry];
  Worker::TableRows pushed;
  COLLA_TRY_ASSIGN(const auto payload, payloadOf(from, pushed.keep));
  auto rows = decodeRows(payload, shard_->tree().leavesOf(from.peer), table.rows(), table.width());
  if (!rows.ok()) {
    worker.refusal = rows.status().withContext(fmt::format("table \"{}\"", table.name));
    return {};
  }
  for (const PushedRows& leaf : *rows) {
    const auto bad = firstNotFinite(leaf.values.data(), leaf.values.size(), DataType::kFloat32);
    if (bad && worker.refusal.ok()) {
      worker.refusal = wrong("the gradient of \"{}\" is not finite in row {} in step {}",
                             table.name, leaf.rows[*bad / table.width()], from.ask.step + 1);
    }
  }
  pushed.leaves = *std::move(rows);
  pushed.payload = std::move(from.payload);
  worker.rows[entry] = std::move(pushed);
  return {};
}

Status Server::finish(const Asked& from) {
  Worker& worker = workers_[from.peer];
  transport::Mapping keep;
  COLLA_TRY_ASSIGN(const auto payload, payloadOf(from, keep));
  checkPushed();
  if (!worker.refusal.ok()) {
    // Nothing of it may end up in the worker's next step, which need not bring the same.
    worker.rows.clear();
    worker.pushed.clear();
    return std::exchange(worker.refusal, {});
  }
  COLLA_TRY_ASSIGN(Finish finish, decodeFinish(payload, layout_->entries().size()));
  if (!started_) return wrong("a step ends before worker 0 has started the servers");
  if (!finish.empty && worker.pushed.size() != shard_->blocks().size()) {
    return wrong("a step ends with {} of {} blocks", worker.pushed.size(), shard_->blocks().size());
  }
  worker.finish = std::move(finish);
  worker.step = from.ask.step;
  worker.waits = from;
  worker.dropped = false;
  ++worker.clock;
  stop_ = stop_ || worker.finish->stop;
  if (first()) {
    arrived(from.peer, worker.step);
  } else {
    tell(0, {.topic = Topic::kArrived, .number = from.peer, .step = worker.step});
  }
  return {};
}

Status Server::pullRows(const Asked& from) {
  transport::Mapping keep;
  COLLA_TRY_ASSIGN(const auto payload, payloadOf(from, keep));
  const int entry = from.ask.number;
  const std::size_t count = from.ask.count;
  if (entry < 0 || entry >= static_cast<int>(layout_->entries().size()) ||
      layout_->entries()[entry].kind != Kind::kRows) {
    return wrong("entry {} is no table", entry);
  }
  const Entry& table = layout_->entries()[entry];
  const std::size_t width = table.width();
  const std::size_t numbers = count * sizeof(std::int64_t);
  const std::size_t bytes = count * width * sizeof(float);
  const bool sends = keep.bytes.empty();
  if (payload.size() != (sends ? numbers : numbers + bytes))
    return wrong("damaged numbers of rows");
  std::vector<std::byte> sent(sends ? bytes : 0);
  std::byte* out = sends ? sent.data() : keep.bytes.data() + numbers;
  for (std::size_t i = 0; i < count; ++i, out += width * sizeof(float)) {
    std::int64_t row = 0;
    std::memcpy(&row, payload.data() + i * sizeof(row), sizeof(row));
    if (row < 0 || row >= table.rows()) {
      return wrong("row {} of table \"{}\", which has {}", row, table.name, table.rows());
    }
    const Partition& part = layout_->partitionOf(entry, row);
    const auto number = static_cast<int>(&part - layout_->partitions().data());
    if (part.server != options_.rank) return wrong("row {} is on another server", row);
    std::memcpy(
        out, shard_->partition(number).data() + static_cast<std::size_t>(row - part.begin) * width,
        width * sizeof(float));
  }
  answer(from, {.step = step_}, std::move(sent));
  return {};
}

Status Server::fetch(const Asked& from) {
  const Ask& ask = from.ask;
  if (snapshot_ == nullptr || snapshot_->step < ask.step) {
    deferred_.push_back(from);  // Its order is on its way.
    return {};
  }
  if (ask.topic == Topic::kFetchSteps) {
    ByteWriter writer;
    writer.list(std::span<const std::int64_t>(snapshot_->steps));
    answer(from, {.step = snapshot_->step}, writer.take());
    return {};
  }
  const bool rows = ask.topic == Topic::kFetchRows;
  const auto& all = rows ? snapshot_->partitions : snapshot_->blocks;
  const auto found = all.find(ask.number);
  if (found == all.end() || ask.slot < -1 || ask.slot >= shard_->slots()) {
    return wrong("{} {}, slot {} is not here", rows ? "partition" : "block", ask.number, ask.slot);
  }
  std::span<const std::byte> bytes = found->second[static_cast<std::size_t>(ask.slot) + 1];
  if (rows) {
    const std::size_t width =
        layout_->entries()[layout_->partitions()[ask.number].entry].width() * sizeof(float);
    const std::size_t most = bytes.size() / width;
    if (ask.count > most || ask.first < 0 ||
        static_cast<std::size_t>(ask.first) > most - ask.count) {
      return wrong("{} rows from {} on of partition {}", ask.count, ask.first, ask.number);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(ask.first) * width, ask.count * width);
  }
  answer(from, {.step = snapshot_->step}, {bytes.begin(), bytes.end()});
  return {};
}

}  // namespace colla::ps
