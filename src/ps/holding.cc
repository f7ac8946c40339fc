#include "ps/holding.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/bytes.h"
#include "base/invalid.h"

namespace colla::ps {
namespace {

// The declaration without what belongs to an epoch: its workers, who of them has which slices,
// their hosts and their threads.
std::vector<std::byte> modelOf(Declaration declaration) {
  declaration.policy.workers = 0;
  declaration.firstSlices = {declaration.firstSlices.back()};  // The number of slices.
  declaration.hosts.clear();
  declaration.threads = 0;
  return encode(declaration);
}

}  // namespace

Result<PushPlan> Holding::planOf(const Declaration& declaration, const Place& place) {
  if (declaration.policy.workers != place.workers || declaration.layout.servers != place.servers) {
    return invalid("it counts {} workers and {} servers, but the job has {} and {}",
                   declaration.policy.workers, declaration.layout.servers, place.workers,
                   place.servers);
  }
  return pushPlanOf(declaration);
}

Result<std::unique_ptr<Holding>> Holding::make(Declaration declaration, const Place& place) {
  COLLA_TRY_ASSIGN(PushPlan plan, planOf(declaration, place));
  COLLA_TRY_ASSIGN(auto rules, rulesOf(declaration));
  COLLA_TRY_ASSIGN(Layout layout, Layout::make(declaration.entries, declaration.layout));
  return std::unique_ptr<Holding>(new Holding(std::move(declaration), std::move(layout),
                                              std::move(rules), std::move(plan), place));
}

Holding::Holding(Declaration declaration, Layout layout, std::vector<optim::UpdateRule> rules,
                 PushPlan plan, const Place& place)
    : declaration_(std::move(declaration)),
      layout_(std::move(layout)),
      plan_(std::move(plan)),
      team_(place.threads, place.worthSharing),
      shard_(layout_, place.server, std::move(rules), plan_->tree(), team_) {}

Result<bool> Holding::redeclare(const Declaration& declaration, const Place& place) {
  COLLA_TRY_ASSIGN(PushPlan plan, planOf(declaration, place));
  if (modelOf(declaration) != modelOf(declaration_)) return false;
  declaration_ = declaration;
  plan_.emplace(std::move(plan));
  shard_.reslice(plan_->tree());
  snapshot_ = {};
  return true;
}

std::size_t Holding::rowBytes(int partition) const {
  return layout_.entries()[layout_.partitions()[partition].entry].width() * sizeof(float);
}

Status Holding::fill(const Ask& ask, std::span<const std::byte> payload) {
  const bool rows = ask.topic == Topic::kFillRows;
  const auto own = rows ? shard_.partitions() : shard_.blocks();
  if (!std::ranges::binary_search(own, ask.number) || ask.slot < -1 ||
      ask.slot >= (rows ? shard_.partitionSlots(ask.number) : shard_.blockSlots())) {
    return invalid("{} {}, slot {} is not here", rows ? "partition" : "block", ask.number,
                   ask.slot);
  }
  std::span<std::byte> target;
  if (rows) {
    const auto all = std::as_writable_bytes(shard_.partition(ask.number, ask.slot));
    const std::size_t width = rowBytes(ask.number);
    if (ask.first < 0 || static_cast<std::size_t>(ask.first) > all.size() / width) {
      return invalid("row {} of partition {}", ask.first, ask.number);
    }
    target = all.subspan(static_cast<std::size_t>(ask.first) * width);
    if (payload.size() > target.size()) {
      return invalid("too many rows of partition {}", ask.number);
    }
    target = target.first(payload.size());
  } else {
    target = shard_.block(ask.number, ask.slot);
    if (payload.size() != target.size()) {
      return invalid("block {} has a different size", ask.number);
    }
  }
  if (!payload.empty()) std::memcpy(target.data(), payload.data(), payload.size());
  return {};
}

Status Holding::readRows(const Ask& ask, std::span<const std::byte> numbers,
                         std::span<std::byte> out) {
  const Entry& table = layout_.entries()[ask.number];
  const std::size_t width = table.width();
  for (std::size_t i = 0; i < ask.count; ++i) {
    std::int64_t row = 0;
    std::memcpy(&row, numbers.data() + i * sizeof(row), sizeof(row));
    if (row < 0 || row >= table.rows()) {
      return invalid("row {} of table \"{}\", which has {}", row, table.name, table.rows());
    }
    const Partition& part = layout_.partitionOf(ask.number, row);
    const auto number = static_cast<int>(&part - layout_.partitions().data());
    if (!std::ranges::binary_search(shard_.partitions(), number)) {
      return invalid("row {} is on a different server", row);
    }
    const std::span<const float> values =
        shard_.partition(number).subspan(static_cast<std::size_t>(row - part.begin) * width, width);
    std::memcpy(out.data() + i * values.size_bytes(), values.data(), values.size_bytes());
  }
  return {};
}

void Holding::takeSnapshot(std::int64_t atStep) {
  snapshot_ = {};
  snapshot_.step = atStep;
  snapshot_.steps.assign(shard_.steps().begin(), shard_.steps().end());
  for (const int number : shard_.blocks()) {
    for (int slot = -1; slot < shard_.blockSlots(); ++slot) {
      const auto bytes = shard_.block(number, slot);
      snapshot_.blocks[number].emplace_back(bytes.begin(), bytes.end());
    }
  }
  for (const int number : shard_.partitions()) {
    for (int slot = -1; slot < shard_.partitionSlots(number); ++slot) {
      const auto bytes = std::as_bytes(shard_.partition(number, slot));
      snapshot_.partitions[number].emplace_back(bytes.begin(), bytes.end());
    }
  }
}

Result<std::vector<std::byte>> Holding::readSnapshot(const Ask& ask) const {
  if (ask.topic == Topic::kFetchSteps) {
    ByteWriter writer;
    writer.list(std::span<const std::int64_t>(snapshot_.steps));
    return writer.take();
  }
  const bool rows = ask.topic == Topic::kFetchRows;
  const auto& all = rows ? snapshot_.partitions : snapshot_.blocks;
  const auto found = all.find(ask.number);
  if (found == all.end() || ask.slot < -1 || ask.slot + 1 >= std::ssize(found->second)) {
    return invalid("{} {}, slot {} is not here", rows ? "partition" : "block", ask.number,
                   ask.slot);
  }
  std::span<const std::byte> bytes = found->second[static_cast<std::size_t>(ask.slot) + 1];
  if (rows) {
    const std::size_t width = rowBytes(ask.number);
    const std::size_t most = bytes.size() / width;
    if (ask.count > most || ask.first < 0 ||
        static_cast<std::size_t>(ask.first) > most - ask.count) {
      return invalid("{} rows from {} on of partition {}", ask.count, ask.first, ask.number);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(ask.first) * width, ask.count * width);
  }
  return std::vector<std::byte>(bytes.begin(), bytes.end());
}

}  // namespace colla::ps
