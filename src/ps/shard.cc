#include "ps/shard.h"

#include <algorithm>
#include <cstring>

#include "ps/stream.h"

namespace colla::ps {
namespace {

// What is handed out at once and has more bytes than this is out of the caches before it is read.
constexpr std::size_t kCached = std::size_t{16} << 20;
// A table's rows that are trained together lie together: with several ranges per thread none of
// them has all the work.
constexpr int kRangesPerThread = 4;

}  // namespace

Shard::Shard(const Layout& layout, int server, std::vector<optim::UpdateRule> rules,
             collective::SumTree tree, Team& team)
    : layout_(layout),
      rules_(std::move(rules)),
      blockSlots_(mostSlots(rules_)),
      tree_(std::move(tree)),
      team_(team),
      blocks_(layout.blocks().size()),
      tables_(layout.partitions().size()),
      steps_(layout.entries().size()) {
  const auto allocate = [&](Memory& memory, std::size_t bytes, int slots) {
    memory.values = AlignedBytes(bytes);
    for (int slot = 0; slot < slots; ++slot) memory.slots.emplace_back(bytes);
  };
  for (int number = 0; number < static_cast<int>(blocks_.size()); ++number) {
    const Block& block = layout.blocks()[number];
    if (block.server != server) continue;
    ownBlocks_.push_back(number);
    bytes_ += block.bytes;
    allocate(blocks_[number], block.bytes, blockSlots_);
    for (const Piece& piece : block.pieces) {
      const std::span<const optim::Slot> slots = ruleOf(piece.entry).slots();
      for (std::size_t slot = 0; slot < slots.size(); ++slot) {
        const std::span<std::byte> memory = blocks_[number].slots[slot].bytes();
        const double initial = slots[slot].initial;
        const std::size_t offset = piece.offset - block.offset;
        if (layout.entries()[piece.entry].type == DataType::kFloat64) {
          std::ranges::fill(elements<double>(memory, offset, piece.count), initial);
        } else if (layout.entries()[piece.entry].type == DataType::kFloat32) {
          std::ranges::fill(elements<float>(memory, offset, piece.count),
                            static_cast<float>(initial));
        }
      }
    }
  }
  for (int number = 0; number < static_cast<int>(tables_.size()); ++number) {
    const Partition& part = layout.partitions()[number];
    if (part.server != server) continue;
    ownPartitions_.push_back(number);
    const std::size_t count =
        static_cast<std::size_t>(part.end - part.begin) * layout.entries()[part.entry].width();
    allocate(tables_[number], count * sizeof(float), partitionSlots(number));
    for (int slot = 0; slot < partitionSlots(number); ++slot) {
      std::ranges::fill(partition(number, slot),
                        static_cast<float>(ruleOf(part.entry).slots()[slot].initial));
    }
    cutIntoRanges(number);
  }
}

void Shard::cutIntoRanges(int partition) {
  const Partition& part = layout_.partitions()[partition];
  const std::int64_t rows = part.end - part.begin;
  const std::int64_t wanted = team_.size() == 1 ? 1 : kRangesPerThread * team_.size();
  const std::int64_t ranges = std::min(wanted, rows);
  for (std::int64_t i = 0; i < ranges; ++i) {
    ranges_.push_back(
        {partition, part.begin + rows * i / ranges, part.begin + rows * (i + 1) / ranges, {}});
  }
}

std::span<std::byte> Shard::block(int number, int slot) {
  Memory& memory = blocks_[number];
  return (slot < 0 ? memory.values : memory.slots[slot]).bytes();
}

std::span<float> Shard::partition(int number, int slot) {
  Memory& memory = tables_[number];
  const std::span<std::byte> bytes = (slot < 0 ? memory.values : memory.slots[slot]).bytes();
  return elements<float>(bytes, 0, bytes.size() / sizeof(float));
}

std::vector<std::byte*> Shard::sinksOf(int block, const Sinks& sinks) const {
  std::vector<std::byte*> places;
  sinks(block, places);
  return places;
}

void Shard::handOut(const Memory& memory, std::size_t offset, std::size_t bytes,
                    std::span<std::byte* const> sinks) const {
  const std::byte* const from = memory.values.bytes().data() + offset;
  const bool cached = sinks.size() * bytes_ <= kCached;
  for (std::byte* const sink : sinks) {
    if (cached) {
      std::memcpy(sink + offset, from, bytes);
    } else {
      streamBytes(sink + offset, from, bytes);
    }
  }
}

void Shard::handOut(const Sinks& sinks) {
  team_.forEach(ownBlocks_.size(), bytes_, [&](std::size_t i) {
    const int number = ownBlocks_[i];
    handOut(blocks_[number], 0, layout_.blocks()[number].bytes, sinksOf(number, sinks));
  });
}

}  // namespace colla::ps
