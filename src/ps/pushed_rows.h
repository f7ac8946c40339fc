// Rows of a table on their way to a server: as a message, or where they lie in a worker's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "colla/status.h"
#include "collective/rows.h"

namespace colla::ps {

// Rows of each of a worker's leaves that one server gets, put where they are to travel from.
class RowsWriter {
 public:
  RowsWriter(std::size_t leaves, std::size_t width) : leaves_(leaves), width_(width) {}

  // Rows [begin, end) of those that a leaf has, behind those added before.
  void add(std::size_t leaf, const collective::Rows& rows, std::size_t begin, std::size_t end);
  bool empty() const;
  std::size_t bytes() const;
  // `out` has bytes(), and begins where an int64 may.
  void write(std::span<std::byte> out) const;

 private:
  struct Part {
    const collective::Rows* rows;
    std::size_t begin;
    std::size_t end;
  };
  struct Leaf {
    std::vector<Part> parts;
    std::size_t count = 0;
  };
  std::vector<Leaf> leaves_;
  const std::size_t width_;
};

// Numbers of rows, checked, and where their values lie.
struct PushedRows {
  std::vector<std::int64_t> rows;
  std::span<const float> values;
};
// kInvalidArgument for rows that don't ascend or are not in [0, rows), and other lengths.
Result<std::vector<PushedRows>> decodeRows(std::span<const std::byte> bytes, int leaves,
                                           std::int64_t rows, std::size_t width);

}  // namespace colla::ps
