// What the servers of a job hold, and which of them holds which part.
//
// Everything but tables of rows lies one behind another in one area, which worker and server lay
// out alike. The area is cut into blocks: the unit of ownership, of a push and of a pull. Cuts fall
// on fixed elements of a tensor, so no result depends on the number of servers. Tables are cut by
// row.
//
// Immutable; worker and server make equal ones from equal entries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "colla/data_type.h"
#include "colla/optimizer.h"
#include "colla/status.h"

namespace colla::ps {

// How an entry changes when gradients are taken.
enum class Kind : std::uint8_t {
  kParameter,  // The optimizer changes it by the sum of what workers bring.
  kRows,       // The same, but only the rows that they bring.
  kMean,       // It becomes that sum, if one of them changed it: BatchNorm's statistics.
  kSum,        // It becomes that sum, always: metrics.
  kCopy,       // It becomes what the first of them brings.
};
std::string_view toString(Kind kind);

struct Entry {
  std::string name;
  Kind kind = Kind::kParameter;
  DataType type = DataType::kFloat32;
  std::vector<std::int64_t> shape;
  int order = 0;  // Among the model's parameters: the global norm is summed by it.
  std::optional<OptimizerOptions> optimizer = {};  // Instead of the declaration's.

  std::size_t count() const;
  std::size_t bytes() const { return count() * sizeOf(type); }
  // Of a table.
  std::int64_t rows() const { return shape.front(); }
  std::size_t width() const { return count() / static_cast<std::size_t>(rows()); }

  friend bool operator==(const Entry&, const Entry&) = default;
};

// Elements [begin, begin + count) of an entry, at byte `offset` of the area.
struct Piece {
  int entry;
  std::size_t begin;
  std::size_t count;
  std::size_t offset;
};

struct Block {
  int server;
  std::size_t offset;  // In the area, in bytes.
  std::size_t bytes;
  std::vector<Piece> pieces;
};

// Rows [begin, end) of a table.
struct Partition {
  int entry;
  int server;
  std::int64_t begin;
  std::int64_t end;
};

class Layout {
 public:
  struct Options {
    int servers = 1;
    int partitions = 0;  // Of each table; 0: one per server.
    std::size_t blockBytes = std::size_t{1} << 20;
  };

  // kInvalidArgument for what a server can't hold, with the entry's name.
  static Result<Layout> make(std::vector<Entry> entries, const Options& options);

  std::span<const Entry> entries() const { return entries_; }
  std::span<const Block> blocks() const { return blocks_; }
  std::span<const Partition> partitions() const { return partitions_; }
  // Whether there is such an entry, and it is a table of rows.
  bool isTable(int entry) const {
    return entry >= 0 && entry < static_cast<int>(entries_.size()) &&
           entries_[static_cast<std::size_t>(entry)].kind == Kind::kRows;
  }
  // The partitions of table `entry`, by row.
  std::span<const Partition> partitionsOf(int entry) const;
  const Partition& partitionOf(int entry, std::int64_t row) const;
  std::size_t areaBytes() const { return areaBytes_; }
  // Where an entry begins in the area, in bytes. Not for tables.
  std::size_t offsetOf(int entry) const { return offsets_[static_cast<std::size_t>(entry)]; }
  int servers() const { return options_.servers; }

 private:
  Layout(std::vector<Entry> entries, const Options& options);
  void placeEntries();
  void cutTable(int entry);

  std::vector<Entry> entries_;
  Options options_;
  std::vector<std::size_t> offsets_;
  std::size_t areaBytes_ = 0;
  std::vector<Block> blocks_;
  std::vector<Partition> partitions_;
  std::vector<std::size_t> firstPartition_;  // By entry; one more at the end.
};

}  // namespace colla::ps
