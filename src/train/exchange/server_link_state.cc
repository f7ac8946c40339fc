// What servers hold, from a checkpoint and into one: whole tensors there, blocks and partitions
// here.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "checkpoint/restore.h"
#include "colla/error.h"
#include "train/exchange/server_link.h"

namespace colla::train {

std::string ServerLink::slotName(int entry, int slot) const {
  return fmt::format("{}/{}", client_->layout().entries()[entry].name,
                     client_->slotsOf(entry)[slot].name);
}

bool ServerLink::updates(const std::string& name) const {
  const std::string entry = name.substr(0, name.rfind('/'));
  const auto entries = client_->layout().entries().first(static_cast<std::size_t>(firstBuffer()));
  return std::ranges::find(entries, entry, &ps::Entry::name) != entries.end();
}

void ServerLink::start(std::int64_t step, std::span<const checkpoint::TensorView> saved) {
  const auto& layout = client_->layout();
  std::vector<checkpoint::TensorView> optimizer;
  for (const checkpoint::TensorView& view : saved) {
    if (updates(view.name)) optimizer.push_back(view);
  }
  if (workers_.rank() == 0) {
    std::vector<std::int64_t> steps(layout.entries().size());
    // Slots as whole tensors first: a checkpoint knows nothing of blocks.
    std::vector<std::vector<std::byte>> memory;
    std::vector<std::vector<std::span<std::byte>>> slots(layout.entries().size());
    std::vector<checkpoint::Target> targets;
    for (int entry = 0; entry < firstBuffer() && !optimizer.empty(); ++entry) {
      const ps::Entry& e = layout.entries()[entry];
      targets.push_back({e.name + "/step",
                         DataType::kInt64,
                         {},
                         std::as_writable_bytes(std::span(&steps[entry], 1))});
      for (int slot = 0; slot < slotsOf(entry); ++slot) {
        memory.emplace_back(e.bytes());
        slots[entry].emplace_back(memory.back());
        targets.push_back({slotName(entry, slot), e.type, e.shape, slots[entry].back()});
      }
    }
    if (!optimizer.empty()) throwIfError(checkpoint::restore(optimizer, targets));
    for (int block = 0; block < static_cast<int>(layout.blocks().size()); ++block) {
      const ps::Block& b = layout.blocks()[block];
      throwIfError(client_->fill(block, -1, client_->area().subspan(b.offset, b.bytes)));
      for (int slot = 0; slot < client_->blockSlots() && !optimizer.empty(); ++slot) {
        std::vector<std::byte> bytes(b.bytes);
        for (const ps::Piece& piece : b.pieces) {
          if (slot >= std::ssize(slots[piece.entry])) continue;
          const std::size_t size = sizeOf(layout.entries()[piece.entry].type);
          std::memcpy(bytes.data() + piece.offset - b.offset,
                      slots[piece.entry][slot].data() + piece.begin * size, piece.count * size);
        }
        throwIfError(client_->fill(block, slot, bytes));
      }
    }
    for (int part = 0; part < static_cast<int>(layout.partitions().size()); ++part) {
      const ps::Partition& p = layout.partitions()[part];
      const std::size_t width = layout.entries()[p.entry].width();
      const std::size_t first = static_cast<std::size_t>(p.begin) * width;
      const std::size_t count = static_cast<std::size_t>(p.end - p.begin) * width;
      const torch::Tensor& table = tensors_.tables[p.entry - firstTable()].tensor;
      throwIfError(client_->fillRows(part, -1, 0, {table.const_data_ptr<float>() + first, count}));
      for (int slot = 0; slot < slotsOf(p.entry) && !optimizer.empty(); ++slot) {
        const auto* values = reinterpret_cast<const float*>(slots[p.entry][slot].data());
        throwIfError(client_->fillRows(part, slot, 0, {values + first, count}));
      }
    }
    throwIfError(client_->start(step, steps));
  }
  valueOrThrow(client_->begin());
  ++turn_;
}

std::int64_t ServerLink::resume() {
  if (workers_.rank() == 0) valueOrThrow(client_->resume());
  const ps::Turn turn = valueOrThrow(client_->begin());
  ++turn_;
  return turn.samples;
}

std::int64_t ServerLink::takeSnapshot(std::int64_t held) {
  return valueOrThrow(snapshots_->take(held));
}

Result<std::shared_ptr<const ServerLink::Copy>> ServerLink::readSnapshot() {
  const auto& layout = client_->layout();
  auto copy = std::make_shared<Copy>();
  COLLA_TRY_ASSIGN(const auto steps, snapshots_->steps());
  const auto whole = [&](int entry, int slot) -> Result<std::span<std::byte>> {
    const ps::Entry& e = layout.entries()[entry];
    const std::span<std::byte> bytes = copy->memory.emplace_back(e.bytes());
    for (const ps::Partition& part : layout.partitionsOf(entry)) {
      const std::size_t width = e.width();
      const auto number = static_cast<int>(&part - layout.partitions().data());
      COLLA_TRY(snapshots_->readRows(
          number, slot, 0,
          {reinterpret_cast<float*>(bytes.data()) + static_cast<std::size_t>(part.begin) * width,
           static_cast<std::size_t>(part.end - part.begin) * width}));
    }
    return bytes;
  };
  // Blocks hold pieces of several tensors: read once, then dealt out.
  std::vector<std::vector<std::span<std::byte>>> tensors(layout.entries().size());
  for (int entry = 0; entry < numbersEntry(); ++entry) {
    const int slots = entry < firstBuffer() ? slotsOf(entry) : 0;
    for (int slot = -1; slot < slots; ++slot) {
      COLLA_TRY_ASSIGN(tensors[entry].emplace_back(), whole(entry, slot));
    }
  }
  for (int block = 0; block < static_cast<int>(layout.blocks().size()); ++block) {
    const ps::Block& b = layout.blocks()[block];
    for (int slot = -1; slot < client_->blockSlots(); ++slot) {
      std::vector<std::byte> bytes(b.bytes);
      COLLA_TRY(snapshots_->readBlock(block, slot, bytes));
      for (const ps::Piece& piece : b.pieces) {
        if (slot + 1 >= std::ssize(tensors[piece.entry])) continue;
        const std::size_t size = sizeOf(layout.entries()[piece.entry].type);
        std::memcpy(tensors[piece.entry][slot + 1].data() + piece.begin * size,
                    bytes.data() + piece.offset - b.offset, piece.count * size);
      }
    }
  }
  for (int entry = 0; entry < numbersEntry(); ++entry) {
    const ps::Entry& e = layout.entries()[entry];
    auto& part = entry < firstBuffer() ? copy->parameters : copy->buffers;
    part.push_back({e.name, e.type, e.shape, tensors[entry][0]});
    if (entry >= firstBuffer()) continue;
    auto& step = copy->memory.emplace_back(sizeof(std::int64_t));
    std::memcpy(step.data(), &steps[entry], sizeof(std::int64_t));
    copy->optimizer.push_back({e.name + "/step", DataType::kInt64, {}, step});
    for (int slot = 0; slot < slotsOf(entry); ++slot) {
      copy->optimizer.push_back({slotName(entry, slot), e.type, e.shape, tensors[entry][slot + 1]});
    }
  }
  return std::shared_ptr<const Copy>(std::move(copy));
}

}  // namespace colla::train
