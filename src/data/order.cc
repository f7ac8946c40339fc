#include "data/order.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "colla/random.h"

namespace colla::data {

Result<Order> Order::create(const OrderOptions& options) {
  const auto [samples, batch, slices, seed, shuffle] = options;
  if (samples < 1 || batch < 1 || slices < 1) {
    return {StatusCode::kInvalidArgument,
            fmt::format("{} samples in batches of {} and {} slices: all must be at least 1",
                        samples, batch, slices)};
  }
  return Order(options);
}

Piece Order::batch(std::int64_t batch) const {
  const std::int64_t first = batch * options_.batch;
  return {first, std::min(options_.batch, options_.samples - first)};
}

Piece Order::slice(std::int64_t batch, int slice) const {
  const Piece whole = this->batch(batch);
  const std::int64_t least = whole.count / options_.slices;
  const std::int64_t larger = whole.count % options_.slices;  // That many have one more.
  return {whole.first + slice * least + std::min<std::int64_t>(slice, larger),
          least + (slice < larger ? 1 : 0)};
}

EpochOrder::EpochOrder(const Order& order, std::int64_t epoch) : epoch_(epoch) {
  const auto [samples, batch, slices, seed, shuffle] = order.options();
  if (!shuffle) return;
  // Fisher and Yates's shuffle: every permutation equally often.
  permutation_.resize(samples);
  std::iota(permutation_.begin(), permutation_.end(), 0);
  Random random(seed, epoch, kOrderStream);
  for (std::int64_t i = samples - 1; i > 0; --i) {
    std::swap(permutation_[i], permutation_[random.below(i + 1)]);
  }
}

void EpochOrder::indices(Piece piece, std::vector<std::int64_t>& indices) const {
  indices.resize(piece.count);
  if (permutation_.empty()) {
    std::iota(indices.begin(), indices.end(), piece.first);
  } else {
    COLLA_CHECK(piece.first + piece.count <= std::ssize(permutation_));
    std::copy_n(permutation_.begin() + piece.first, piece.count, indices.begin());
  }
}

}  // namespace colla::data
