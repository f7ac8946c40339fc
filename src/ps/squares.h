// Sums of squares of the parts of gradients that servers hold, for the global norm.
//
// Parts are norm blocks of a parameter and rows of a table. Added in order they are what a worker
// that holds everything would get, bit for bit (optim/norm.h).
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "colla/status.h"

namespace colla::ps {

class Squares {
 public:
  // Of the part of `entry` that begins with element `begin`.
  void add(int entry, std::size_t begin, double sum) { parts_.push_back({entry, begin, sum}); }
  void add(const Squares& other);
  // Of each entry.
  std::map<int, double> sums() const;

  std::vector<std::byte> encode() const;
  static Result<Squares> decode(std::span<const std::byte> bytes);

 private:
  struct Part {
    std::int64_t entry;
    std::uint64_t begin;
    double sum;
  };
  std::vector<Part> parts_;
};

}  // namespace colla::ps
