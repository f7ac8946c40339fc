// Which samples belong to which slice of which step.
//
// An epoch reads every sample exactly once, in an order that depends on (seed, epoch) alone, or in
// the natural one. It is cut into global batches; what is left over makes a smaller last one. A
// batch is cut into slices: contiguous pieces, as even as possible, the larger ones first. The
// number of workers has no say in any of it.
//
// Steps, epochs, batches and slices count from 0. Values are immutable and safe to share.
#pragma once

#include <cstdint>
#include <vector>

#include "colla/status.h"

namespace colla::data {

struct OrderOptions {
  std::int64_t samples = 0;
  std::int64_t batch = 0;  // Global: samples of one step over all slices.
  int slices = 1;
  std::uint64_t seed = 0;
  bool shuffle = true;
};

// A step by its epoch and its batch in it.
struct Position {
  std::int64_t epoch = 0;
  std::int64_t batch = 0;
  friend bool operator==(const Position&, const Position&) = default;
};

// Places [first, first + count) in the order of an epoch.
struct Piece {
  std::int64_t first = 0;
  std::int64_t count = 0;
  friend bool operator==(const Piece&, const Piece&) = default;
};

class Order {
 public:
  // kInvalidArgument for numbers below one.
  static Result<Order> create(const OrderOptions& options);

  const OrderOptions& options() const { return options_; }
  std::int64_t batchesPerEpoch() const { return (options_.samples - 1) / options_.batch + 1; }
  Position position(std::int64_t step) const {
    return {step / batchesPerEpoch(), step % batchesPerEpoch()};
  }
  std::int64_t step(Position position) const {
    return position.epoch * batchesPerEpoch() + position.batch;
  }

  // All samples of a batch, and those of one slice of it (none, when a batch has fewer samples than
  // there are slices).
  Piece batch(std::int64_t batch) const;
  Piece slice(std::int64_t batch, int slice) const;

 private:
  explicit Order(const OrderOptions& options) : options_(options) {}
  OrderOptions options_;
};

// The order of one epoch. Shuffled it holds a number per sample; natural, nothing.
class EpochOrder {
 public:
  EpochOrder(const Order& order, std::int64_t epoch);

  std::int64_t epoch() const { return epoch_; }
  // The samples at the places of `piece`, into `indices`.
  void indices(Piece piece, std::vector<std::int64_t>& indices) const;

 private:
  std::int64_t epoch_;
  std::vector<std::int64_t> permutation_;  // Empty: natural.
};

}  // namespace colla::data
