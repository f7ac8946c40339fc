#include "ps/gradients.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/invalid.h"
#include "ps/finite.h"

namespace colla::ps {

Gradients::Gradients(const Layout& layout, const Shard& shard, const PushPlan& plan, Team& team,
                     int workers)
    : layout_(layout),
      shard_(shard),
      plan_(plan),
      team_(team),
      workers_(static_cast<std::size_t>(workers)) {}

void Gradients::attach(int worker, std::vector<transport::Mapping> areas) {
  workers_[worker].areas = std::move(areas);
}

std::byte* Gradients::areaOf(int worker) const {
  const auto& areas = workers_[worker].areas;
  return areas.empty() ? nullptr : areas[0].bytes.data();
}

Result<std::vector<std::span<std::byte>>> Gradients::placesFor(int worker, int block) {
  if (!std::ranges::binary_search(shard_.blocks(), block)) {
    return invalid("block {} is not here", block);
  }
  if (!plan_.pushesBlock(worker, block)) {
    return invalid("block {} is pushed by a different worker of its host", block);
  }
  std::vector<std::span<std::byte>> places;
  if (!workers_[worker].areas.empty()) return places;
  auto& staged = workers_[worker].staged[block];
  while (staged.size() < static_cast<std::size_t>(leavesOf(worker))) {
    staged.emplace_back(layout_.blocks()[block].bytes);
  }
  for (const AlignedBytes& memory : staged) places.push_back(memory.bytes());
  return places;
}

void Gradients::push(int worker, int block, std::int64_t step) {
  workers_[worker].pushed.insert(block);
  unchecked_.push_back({worker, block, step});
}

// Values stay where they lie until the step is over; the numbers that they are found by are copied.
std::size_t Gradients::pushRows(int worker, int entry, std::int64_t step,
                                std::span<const std::byte> bytes, std::vector<std::byte> payload,
                                transport::Mapping mapping) {
  Status& refusal = workers_[worker].refusal;
  if (!layout_.isTable(entry)) {
    refusal = invalid("entry {} is no table", entry);
    return 0;
  }
  const Entry& table = layout_.entries()[entry];
  auto rows = decodeRows(bytes, leavesOf(worker), table.rows(), table.width());
  if (!rows.ok()) {
    refusal = rows.status().withContext(fmt::format("table \"{}\"", table.name));
    return 0;
  }
  std::size_t count = 0;
  for (const PushedRows& leaf : *rows) {
    count += leaf.rows.size();
    const auto bad = firstNotFinite(leaf.values.data(), leaf.values.size(), DataType::kFloat32);
    if (bad && refusal.ok()) {
      refusal = invalid("the gradient of \"{}\" is not finite in row {} in step {}", table.name,
                        leaf.rows[*bad / table.width()], step + 1);
    }
  }
  workers_[worker].rows[entry] = {*std::move(rows), std::move(payload), std::move(mapping)};
  return count;
}

void Gradients::check() {
  if (unchecked_.empty()) return;
  std::vector<Status> found(unchecked_.size());
  std::size_t bytes = 0;
  for (const Pushed& pushed : unchecked_) bytes += layout_.blocks()[pushed.block].bytes;
  team_.forEach(unchecked_.size(), bytes,
                [&](std::size_t i) { found[i] = lookThrough(unchecked_[i]); });
  for (std::size_t i = 0; i < found.size(); ++i) {
    Status& refusal = workers_[unchecked_[i].worker].refusal;
    if (refusal.ok()) refusal = std::move(found[i]);
  }
  unchecked_.clear();
}

Status Gradients::lookThrough(const Pushed& pushed) const {
  const Block& block = layout_.blocks()[pushed.block];
  for (int leaf = 0; leaf < leavesOf(pushed.worker); ++leaf) {
    const std::byte* const base = at(pushed.worker, pushed.block, leaf);
    for (const Piece& piece : block.pieces) {
      const Entry& entry = layout_.entries()[piece.entry];
      if (entry.kind != Kind::kParameter) continue;
      const auto bad = firstNotFinite(base + piece.offset - block.offset, piece.count, entry.type);
      if (bad) {
        return invalid("the gradient of \"{}\" is not finite at element {} in step {}", entry.name,
                       piece.begin + *bad, pushed.step + 1);
      }
    }
  }
  return {};
}

const std::byte* Gradients::at(int worker, int block, int leaf) const {
  const Worker& w = workers_[worker];
  return w.areas.empty() ? w.staged.at(block)[leaf].bytes().data()
                         : w.areas[leaf + 1].bytes.data() + layout_.blocks()[block].offset;
}

Status Gradients::end(int worker, bool empty) {
  check();
  Worker& w = workers_[worker];
  const auto blocks = static_cast<std::size_t>(std::ranges::count_if(
      shard_.blocks(), [&](int block) { return plan_.pushesBlock(worker, block); }));
  Status status = std::exchange(w.refusal, {});
  if (status.ok() && !empty && w.pushed.size() != blocks) {
    return invalid("a step ends with {} of {} blocks", w.pushed.size(), blocks);
  }
  // Nothing of a refused step may end up in the worker's next one, which need not bring the same.
  if (!status.ok()) forget(worker);
  return status;
}

void Gradients::forget(int worker) {
  workers_[worker].rows.clear();
  workers_[worker].pushed.clear();
}

Shard::Leaves Gradients::leaves(std::span<const int> take) const {
  return [this, take](int block, std::span<const std::byte*> out) {
    std::ranges::fill(out, nullptr);
    for (const int worker : take) {
      if (!plan_.pushesBlock(worker, block)) continue;
      for (int leaf = 0; leaf < leavesOf(worker); ++leaf) {
        out[firstLeaf(worker) + leaf] = at(worker, block, leaf);
      }
    }
  };
}

Shard::RowLeaves Gradients::rows(std::span<const int> take) const {
  return [this, take](int entry, std::span<collective::RowsView> out) {
    for (const int worker : take) {
      const auto found = workers_[worker].rows.find(entry);
      if (found == workers_[worker].rows.end()) continue;
      for (int leaf = 0; leaf < leavesOf(worker); ++leaf) {
        const PushedRows& pushed = found->second.leaves[leaf];
        out[firstLeaf(worker) + leaf] = {pushed.rows, pushed.values};
      }
    }
  };
}

std::size_t Gradients::bytesOf(std::span<const int> take) const {
  std::size_t bytes = 0;
  for (const int worker : take) {
    for (const int block : shard_.blocks()) {
      if (!plan_.pushesBlock(worker, block)) continue;
      bytes += layout_.blocks()[block].bytes * static_cast<std::size_t>(leavesOf(worker));
    }
    for (const auto& [entry, table] : workers_[worker].rows) {
      for (const PushedRows& leaf : table.leaves) bytes += leaf.values.size_bytes();
    }
  }
  return bytes;
}

}  // namespace colla::ps
