#include "ps/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "optim/norm.h"

namespace colla::ps {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kSmallestBlock = 16 << 10;

std::size_t aligned(std::size_t offset) {
  return (offset + kAlignment - 1) / kAlignment * kAlignment;
}

bool floating(DataType type) { return type == DataType::kFloat32 || type == DataType::kFloat64; }

Status check(const Entry& entry) {
  const auto refuse = [&](std::string_view why) -> Status {
    return {StatusCode::kInvalidArgument,
            fmt::format("servers can't hold {} \"{}\": {}", toString(entry.kind), entry.name, why)};
  };
  std::size_t elements = 1;
  for (const std::int64_t size : entry.shape) {
    if (size < 0 || (size > 0 && elements > std::numeric_limits<std::int64_t>::max() / 16 /
                                                static_cast<std::size_t>(size))) {
      return refuse("its shape makes no sense");
    }
    elements *= static_cast<std::size_t>(size);
  }
  const bool summed =
      entry.kind == Kind::kParameter || entry.kind == Kind::kMean || entry.kind == Kind::kSum;
  if (summed && !floating(entry.type)) {
    return refuse(fmt::format("it is {}, but they take float32 and float64", toString(entry.type)));
  }
  if (entry.kind == Kind::kRows) {
    if (entry.type != DataType::kFloat32) return refuse("tables are float32");
    if (entry.shape.empty() || elements == 0) return refuse("it has no rows");
  }
  return {};
}

}  // namespace

std::string_view toString(Kind kind) {
  switch (kind) {
    case Kind::kParameter:
      return "parameter";
    case Kind::kRows:
      return "table";
    case Kind::kMean:
      return "mean";
    case Kind::kSum:
      return "sum";
    case Kind::kCopy:
      return "copy";
  }
  return "unknown";
}

std::size_t Entry::count() const {
  std::size_t elements = 1;
  for (const std::int64_t size : shape) elements *= static_cast<std::size_t>(size);
  return elements;
}

Result<Layout> Layout::make(std::vector<Entry> entries, const Options& options) {
  constexpr int kMost = 1'000'000;
  if (options.servers < 1 || options.servers > kMost || options.partitions < 0 ||
      options.partitions > kMost) {
    return {StatusCode::kInvalidArgument,
            fmt::format("{} servers and {} partitions of a table: there must be at least one "
                        "server, and not more than {} of either",
                        options.servers, options.partitions, kMost)};
  }
  for (const Entry& entry : entries) COLLA_TRY(check(entry));
  return Layout(std::move(entries), options);
}

Layout::Layout(std::vector<Entry> entries, const Options& options)
    : entries_(std::move(entries)), options_(options), offsets_(entries_.size()) {
  placeEntries();
  firstPartition_.push_back(0);
  for (int entry = 0; entry < static_cast<int>(entries_.size()); ++entry) {
    if (entries_[entry].kind == Kind::kRows) cutTable(entry);
    firstPartition_.push_back(partitions_.size());
  }
}

void Layout::placeEntries() {
  for (std::size_t entry = 0; entry < entries_.size(); ++entry) {
    if (entries_[entry].kind == Kind::kRows) continue;
    offsets_[entry] = areaBytes_;
    areaBytes_ = aligned(areaBytes_ + entries_[entry].bytes());
  }
  // Small models are shared out too.
  const std::size_t share = areaBytes_ / static_cast<std::size_t>(options_.servers);
  const std::size_t limit =
      std::clamp(share, kSmallestBlock, std::max(options_.blockBytes, kSmallestBlock));
  const auto add = [&](const Piece& piece, std::size_t bytes) {
    if (blocks_.empty() || piece.offset + bytes - blocks_.back().offset > limit) {
      blocks_.push_back({.server = 0, .offset = piece.offset, .bytes = 0, .pieces = {}});
    }
    Block& block = blocks_.back();
    block.pieces.push_back(piece);
    block.bytes = piece.offset + bytes - block.offset;
  };
  for (std::size_t entry = 0; entry < entries_.size(); ++entry) {
    const Entry& e = entries_[entry];
    if (e.kind == Kind::kRows) continue;
    const std::size_t size = sizeOf(e.type);
    const std::size_t most =
        std::max<std::size_t>(1, limit / size / optim::kNormBlock) * optim::kNormBlock;
    for (std::size_t begin = 0; begin < e.count(); begin += most) {
      const std::size_t count = std::min(most, e.count() - begin);
      add({static_cast<int>(entry), begin, count, offsets_[entry] + begin * size}, count * size);
    }
  }
  std::vector<std::size_t> load(static_cast<std::size_t>(options_.servers));
  for (Block& block : blocks_) {
    const auto least = std::ranges::min_element(load);
    block.server = static_cast<int>(least - load.begin());
    *least += block.bytes;
  }
}

void Layout::cutTable(int entry) {
  const std::int64_t rows = entries_[entry].rows();
  const std::int64_t wanted = options_.partitions > 0 ? options_.partitions : options_.servers;
  const std::int64_t parts = std::min(wanted, rows);
  for (std::int64_t part = 0; part < parts; ++part) {
    // Tables take turns at the first server, so that small ones don't all end up there.
    const auto server = static_cast<int>(partitions_.size() % static_cast<std::size_t>(servers()));
    partitions_.push_back({entry, server, rows * part / parts, rows * (part + 1) / parts});
  }
}

std::span<const Partition> Layout::partitionsOf(int entry) const {
  const auto i = static_cast<std::size_t>(entry);
  return std::span(partitions_)
      .subspan(firstPartition_[i], firstPartition_[i + 1] - firstPartition_[i]);
}

const Partition& Layout::partitionOf(int entry, std::int64_t row) const {
  const auto parts = partitionsOf(entry);
  const auto it = std::ranges::upper_bound(parts, row, {}, &Partition::end);
  COLLA_CHECK(it != parts.end());
  return *it;
}

}  // namespace colla::ps
