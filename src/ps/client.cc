#include "ps/client.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/bytes.h"
#include "base/check.h"
#include "ps/host_sums.h"
#include "ps/pushed_rows.h"
#include "ps/sender.h"
#include "transport/spin.h"

namespace colla::ps {
namespace {

constexpr std::size_t kRowsAtOnce = std::size_t{1} << 20;  // Floats in a message of a table.

std::vector<std::byte> copyOf(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

// The transport's number of a server.
int peerOf(const ClientOptions& options, int server) {
  const int member = options.workers + server;
  return options.peers.empty() ? member : options.peers[static_cast<std::size_t>(member)];
}

// The same of every server.
std::vector<Channel::Expected> askAll(std::span<const std::unique_ptr<Channel>> servers,
                                      const Ask& ask, const std::vector<std::byte>& payload = {}) {
  std::vector<Channel::Expected> expected;
  for (const auto& server : servers) expected.push_back({server.get(), server->ask(ask, payload)});
  return expected;
}

Turn turnOf(const Answer& answer) {
  return {answer.step,   answer.late,  answer.dropped, answer.stop,
          answer.behind, answer.scale, answer.samples};
}

}  // namespace

Result<std::unique_ptr<Client>> Client::connect(ClientOptions options, Declaration declaration) {
  options.timeout += kServersLonger;
  COLLA_TRY_ASSIGN(PushPlan plan, pushPlanOf(declaration));
  COLLA_TRY_ASSIGN(Layout layout, Layout::make(declaration.entries, declaration.layout));
  COLLA_TRY_ASSIGN(auto rules, rulesOf(declaration));
  const int partials = plan.wholeTree().leavesOf(options.rank);
  std::unique_ptr<Client> client(new Client(std::move(options), std::move(declaration),
                                            std::move(layout), std::move(rules), std::move(plan)));
  COLLA_TRY(client->allocate(partials));
  COLLA_TRY(client->attach());
  COLLA_TRY(client->meetNeighbours());
  return client;
}

Client::Client(ClientOptions options, Declaration declaration, Layout layout,
               std::vector<optim::UpdateRule> rules, PushPlan plan)
    : options_(std::move(options)),
      declaration_(std::move(declaration)),
      layout_(std::move(layout)),
      rules_(std::move(rules)),
      plan_(std::move(plan)),
      shared_(options_.transport->sharedMemory()),
      asked_(static_cast<std::size_t>(options_.servers)),
      places_(static_cast<std::size_t>(options_.servers)) {
  for (int server = 0; server < options_.servers; ++server) {
    const int peer = peerOf(options_, server);
    servers_.push_back(
        std::make_unique<Channel>(*options_.transport, peer, options_.names[peer], kWorkerChannel));
  }
  if (shared_ == nullptr) {
    sender_ = std::make_unique<Sender>(*options_.transport);
  } else {
    pushedRows_ = std::make_unique<RowMemory>(*shared_);
    pulledRows_ = std::make_unique<RowMemory>(*shared_);
  }
}

Client::~Client() {
  if (sums_) sums_->stop();
}

bool Client::hasNeighbours() const {
  return plan_.perHost() && plan_.topology().localSize(options_.rank) > 1;
}

Status Client::allocate(int partials) {
  for (int i = 0; i <= partials; ++i) {
    Memory& memory = areas_.emplace_back();
    const std::size_t bytes = std::max<std::size_t>(layout_.areaBytes(), 1);
    transport::SharedMemory* const shared =
        hasNeighbours() && i > 0 ? options_.host->sharedMemory() : shared_;
    if (shared == nullptr) {
      memory.own = AlignedBytes(bytes);
      memory.bytes = memory.own.bytes();
    } else if (options_.allocate) {
      COLLA_TRY_ASSIGN(Bucket bucket, options_.allocate(bytes));
      memory.bytes = bucket.bytes();
      memory.shared = std::make_shared<const Bucket>(std::move(bucket));
    } else {
      COLLA_TRY_ASSIGN(transport::Mapping region, shared->allocate(bytes));
      memory.bytes = region.bytes;
      memory.shared = std::move(region.keep);
    }
  }
  return {};
}

Status Client::attach() {
  const auto declared = askAll(servers_, {.topic = Topic::kDeclare}, encode(declaration_));
  COLLA_TRY(Channel::wait(declared, deadline()).status());
  if (shared_ == nullptr) return {};
  ByteWriter writer;
  writer.number(static_cast<std::uint64_t>(areas_.size()));
  for (const Memory& memory : areas_) {
    const transport::Place place = shared_->find(memory.bytes);
    writer.number(place.region);
    writer.number(place.offset);
  }
  const auto attached = askAll(servers_, {.topic = Topic::kAttach}, writer.take());
  return Channel::wait(attached, deadline()).status();
}

Status Client::meetNeighbours() {
  if (!hasNeighbours()) return {};
  HostSums::Options options{.host = options_.host,
                            .worker = options_.rank,
                            .peers = {},
                            .names = {},
                            .timeout = options_.timeout - kServersLonger};
  for (int worker = 0; worker < options_.workers; ++worker) {
    options.peers.push_back(options_.peers.empty() ? worker : options_.peers[worker]);
    options.names.push_back(options_.names[options.peers.back()]);
  }
  std::vector<std::span<std::byte>> partials;
  for (std::size_t i = 1; i < areas_.size(); ++i) partials.push_back(areas_[i].bytes);
  COLLA_TRY_ASSIGN(sums_, HostSums::meet(std::move(options), layout_, plan_, partials));
  return {};
}

Status Client::fill(int block, int slot, std::span<const std::byte> bytes) {
  const Ask ask{.topic = Topic::kFill, .number = block, .slot = slot};
  Channel& server = *servers_[layout_.blocks()[block].server];
  return server.call(ask, copyOf(bytes), deadline()).status();
}

Status Client::fillRows(int partition, int slot, std::int64_t first,
                        std::span<const float> values) {
  const Partition& part = layout_.partitions()[partition];
  const std::size_t width = layout_.entries()[part.entry].width();
  const std::size_t atOnce = std::max<std::size_t>(1, kRowsAtOnce / width) * width;
  while (!values.empty()) {
    const auto some = values.first(std::min(atOnce, values.size()));
    const Ask ask{.topic = Topic::kFillRows, .number = partition, .slot = slot, .first = first};
    COLLA_TRY(servers_[part.server]->call(ask, copyOf(std::as_bytes(some)), deadline()).status());
    values = values.subspan(some.size());
    first += static_cast<std::int64_t>(some.size() / width);
  }
  return {};
}

Status Client::start(std::int64_t step, std::span<const std::int64_t> steps) {
  ByteWriter writer;
  writer.list(steps);
  const std::vector<std::byte> payload = writer.take();
  const auto expected = askAll(servers_, {.topic = Topic::kStart, .step = step}, payload);
  return Channel::wait(expected, deadline()).status();
}

// One after another: if the first server refuses, the others still wait for a start.
Result<std::int64_t> Client::resume() {
  std::optional<std::int64_t> step;
  for (const auto& server : servers_) {
    const Ask ask{.topic = Topic::kStart, .number = kGoOn};
    COLLA_TRY_ASSIGN(const auto reply, server->call(ask, {}, deadline()));
    if (step.value_or(reply.head.step) != reply.head.step) {
      return {StatusCode::kMismatch,
              fmt::format("servers have kept steps {} and {}", *step, reply.head.step)};
    }
    step = reply.head.step;
  }
  return *step;
}

Result<Turn> Client::begin() {
  return parametersFrom(askAll(servers_, {.topic = Topic::kBegin}), deadline());
}

Result<Turn> Client::waitForOthers() {
  return parametersFrom(askAll(servers_, {.topic = Topic::kOthers}), Deadline::never());
}

void Client::push(int block) {
  Channel& server = *servers_[layout_.blocks()[block].server];
  const Ask ask{.topic = Topic::kPush, .number = block, .step = step_};
  if (shared_ != nullptr) {
    server.ask(ask);
    return;
  }
  if (sums_) {
    sums_->mark(block);
    if (!plan_.pushesBlock(options_.rank, block)) return;
    sender_->send(server, ask, [this, block](Ask&) -> Result<Sender::Payload> {
      COLLA_TRY_ASSIGN(auto sums, sums_->sumBlock(block));
      return Sender::Payload{std::move(sums)};
    });
    return;
  }
  sender_->send(server, ask, [this, block](Ask&) -> Result<Sender::Payload> {
    Sender::Payload payload;
    for (std::size_t i = 1; i < areas_.size(); ++i) {
      payload.parts.emplace_back(
          areas_[i].bytes.subspan(layout_.blocks()[block].offset, layout_.blocks()[block].bytes));
    }
    return payload;
  });
}

Status Client::pushRows(int entry, std::span<const collective::Rows> leaves) {
  if (!sums_) {
    pushOwnRows(entry, leaves);
    return {};
  }
  COLLA_TRY(sums_->markRows(entry, leaves));
  for (int server = 0; server < options_.servers; ++server) {
    const bool held = std::ranges::any_of(
        layout_.partitionsOf(entry), [&](const Partition& part) { return part.server == server; });
    if (!held || !plan_.pushesRows(options_.rank, entry, server)) continue;
    const Ask push{.topic = Topic::kPushRows, .number = entry, .step = step_};
    sender_->send(*servers_[server], push,
                  [this, entry, server](Ask& ask) -> Result<Sender::Payload> {
                    Sender::Payload payload;
                    COLLA_TRY_ASSIGN(payload.own, sums_->sumRows(entry, server));
                    ask.bytes = payload.own.size();
                    payload.parts.emplace_back(payload.own);
                    return payload;
                  });
  }
  return {};
}

void Client::pushOwnRows(int entry, std::span<const collective::Rows> leaves) {
  std::vector<RowsWriter> writers(servers_.size(),
                                  RowsWriter(leaves.size(), layout_.entries()[entry].width()));
  for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf) {
    const std::vector<std::int64_t>& rows = leaves[leaf].rows;
    std::size_t begin = 0;
    for (const Partition& part : layout_.partitionsOf(entry)) {
      const auto end =
          static_cast<std::size_t>(std::ranges::lower_bound(rows, part.end) - rows.begin());
      writers[part.server].add(leaf, leaves[leaf], begin, end);
      begin = end;
    }
  }
  for (std::size_t server = 0; server < servers_.size(); ++server) {
    const RowsWriter& writer = writers[server];
    if (writer.empty()) continue;
    Ask ask{.topic = Topic::kPushRows, .number = entry, .step = step_, .bytes = writer.bytes()};
    const std::span<std::byte> shared =
        pushedRows_ ? pushedRows_->take(writer.bytes()) : std::span<std::byte>();
    std::vector<std::byte> payload(shared.empty() ? writer.bytes() : 0);
    writer.write(shared.empty() ? payload : shared);
    if (!shared.empty()) ask.place = pushedRows_->placeOf(shared);
    servers_[server]->ask(ask, std::move(payload));
  }
}

Result<Turn> Client::finish(const Finish& finish) {
  // Without a neighbour's gradients this worker's push can't be complete, and servers would wait
  // for it.
  if (sums_) COLLA_TRY(sender_->finish());
  auto turn = parametersFrom(
      askAll(servers_, {.topic = Topic::kFinish, .step = step_}, encode(finish)), deadline());
  // The servers have used what was pushed, or want it no more.
  if (sender_) COLLA_TRY(sender_->finish());
  if (sums_) sums_->endStep();
  if (pushedRows_) pushedRows_->takeBack();
  return turn;
}

// They lie in area() then: servers have written them, or they are received there.
Result<Turn> Client::parametersFrom(std::vector<Channel::Expected> expected, Deadline deadline) {
  for (auto block = layout_.blocks().rbegin(); block != layout_.blocks().rend(); ++block) {
    if (shared_ != nullptr) break;
    expected[block->server].targets.push_back(areas_[0].bytes.subspan(block->offset, block->bytes));
  }
  COLLA_TRY_ASSIGN(const auto replies, Channel::wait(expected, deadline));
  step_ = replies.front().head.step;
  return turnOf(replies.front().head);
}

Status Client::pullRows(int entry, std::span<const std::int64_t> rows, std::span<float> values) {
  const std::size_t width = layout_.entries()[entry].width();
  for (auto& asked : asked_) asked.clear();
  for (auto& places : places_) places.clear();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < 0 || rows[i] >= layout_.entries()[entry].rows()) {
      return {StatusCode::kInvalidArgument,
              fmt::format("row {} of table \"{}\", which has {}", rows[i],
                          layout_.entries()[entry].name, layout_.entries()[entry].rows())};
    }
    const int server = layout_.partitionOf(entry, rows[i]).server;
    asked_[server].push_back(rows[i]);
    places_[server].push_back(i);
  }
  std::vector<Channel::Expected> expected;
  std::vector<std::size_t> who;
  std::vector<std::span<const std::byte>> results;  // Of each, where it lies in this memory.
  if (pulledRows_) pulledRows_->takeBack();
  for (std::size_t server = 0; server < servers_.size(); ++server) {
    if (asked_[server].empty()) continue;
    const auto numbers = std::as_bytes(std::span(asked_[server]));
    const std::size_t count = asked_[server].size();
    Ask ask{.topic = Topic::kPullRows,
            .number = entry,
            .count = static_cast<std::uint32_t>(count),
            .bytes = numbers.size() + count * width * sizeof(float)};
    const std::span<std::byte> shared =
        pulledRows_ ? pulledRows_->take(ask.bytes) : std::span<std::byte>();
    if (!shared.empty()) {
      std::ranges::copy(numbers, shared.begin());
      ask.place = pulledRows_->placeOf(shared);
      results.push_back(shared.subspan(numbers.size()));
    } else {
      results.emplace_back();
    }
    Channel& channel = *servers_[server];
    expected.push_back(
        {&channel, channel.ask(ask, shared.empty() ? copyOf(numbers) : std::vector<std::byte>())});
    who.push_back(server);
  }
  if (expected.empty()) return {};
  COLLA_TRY_ASSIGN(const auto replies, Channel::wait(expected, deadline()));
  for (std::size_t i = 0; i < replies.size(); ++i) {
    const auto& places = places_[who[i]];
    const std::span<const std::byte> result = results[i].empty() ? replies[i].payload : results[i];
    if (result.size() != places.size() * width * sizeof(float)) {
      return {StatusCode::kMismatch, "another number of rows came than was asked for"};
    }
    for (std::size_t row = 0; row < places.size(); ++row) {
      std::memcpy(values.data() + places[row] * width, result.data() + row * width * sizeof(float),
                  width * sizeof(float));
    }
  }
  return {};
}

Result<Statistics> Client::statistics() {
  COLLA_TRY_ASSIGN(const auto reply,
                   servers_[0]->call({.topic = Topic::kStatistics}, {}, deadline()));
  return decodeStatistics(reply.payload);
}

Status Client::leave(bool again) { return farewell(again ? kForSomethingElse : kForGood); }

Status Client::leaveEpoch() { return farewell(kUntilNextEpoch); }

Status Client::farewell(Farewell farewell) {
  const auto expected = askAll(servers_, {.topic = Topic::kLeave, .number = farewell});
  return Channel::wait(expected, deadline()).status();
}

Snapshots::Snapshots(const ClientOptions& options, const Layout& layout)
    : options_(options), layout_(layout) {
  for (int server = 0; server < options_.servers; ++server) {
    const int peer = peerOf(options_, server);
    servers_.push_back(
        std::make_unique<Channel>(*options_.transport, peer, options_.names[peer], kSaverChannel));
  }
}

Result<std::int64_t> Snapshots::take(std::int64_t held) {
  COLLA_TRY_ASSIGN(const auto reply,
                   servers_[0]->call({.topic = Topic::kSnapshot, .step = held}, {}, deadline()));
  step_ = reply.head.step;
  return step_;
}

Status Snapshots::readBlock(int block, int slot, std::span<std::byte> out) {
  const Ask ask{.topic = Topic::kFetch, .number = block, .slot = slot, .step = step_};
  COLLA_TRY_ASSIGN(const auto reply,
                   servers_[layout_.blocks()[block].server]->call(ask, {}, deadline()));
  if (reply.payload.size() != out.size()) return {StatusCode::kMismatch, "a block of another size"};
  std::memcpy(out.data(), reply.payload.data(), out.size());
  return {};
}

Status Snapshots::readRows(int partition, int slot, std::int64_t first, std::span<float> out) {
  const Partition& part = layout_.partitions()[partition];
  const std::size_t width = layout_.entries()[part.entry].width();
  const std::size_t atOnce = std::max<std::size_t>(1, kRowsAtOnce / width) * width;
  while (!out.empty()) {
    const auto some = out.first(std::min(atOnce, out.size()));
    const Ask ask{.topic = Topic::kFetchRows,
                  .number = partition,
                  .slot = slot,
                  .count = static_cast<std::uint32_t>(some.size() / width),
                  .step = step_,
                  .first = first};
    COLLA_TRY_ASSIGN(const auto reply, servers_[part.server]->call(ask, {}, deadline()));
    if (reply.payload.size() != some.size_bytes()) {
      return {StatusCode::kMismatch, "rows of another size"};
    }
    std::memcpy(some.data(), reply.payload.data(), some.size_bytes());
    out = out.subspan(some.size());
    first += ask.count;
  }
  return {};
}

Result<std::vector<std::int64_t>> Snapshots::steps() {
  COLLA_TRY_ASSIGN(const auto reply,
                   servers_[0]->call({.topic = Topic::kFetchSteps, .step = step_}, {}, deadline()));
  ByteReader reader(reply.payload);
  auto steps = reader.list<std::int64_t>();
  if (!reader.done()) return {StatusCode::kMismatch, "damaged steps"};
  return steps;
}

}  // namespace colla::ps
