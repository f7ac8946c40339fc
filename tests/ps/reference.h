// A model, what its slices bring in each step, and two that train it: a reference of a few lines
// that has everything (the canonical sum over slices, the optimizer on whole tensors), and a worker
// of servers.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "collective/rows.h"
#include "optim/norm.h"
#include "optim/update_rule.h"
#include "ps/client.h"

namespace colla::ps {

inline constexpr std::int64_t kRows = 50;
inline constexpr std::size_t kWidth = 6;

inline std::vector<Entry> entries() {
  return {{.name = "weight", .shape = {300, 41}, .order = 2},
          {.name = "table", .kind = Kind::kRows, .shape = {kRows, kWidth}, .order = 1},
          {.name = "bias", .shape = {5}, .order = 0},
          {.name = "mean", .kind = Kind::kMean, .shape = {9}},
          {.name = "sums", .kind = Kind::kSum, .type = DataType::kFloat64, .shape = {3}},
          {.name = "count", .kind = Kind::kCopy, .type = DataType::kInt64, .shape = {}}};
}

// What `slice` has in `step`: magnitudes that make a wrong order visible.
inline std::vector<double> numbers(std::int64_t step, int slice, int entry, std::size_t count) {
  std::mt19937_64 random(static_cast<std::uint64_t>(step * 1000 + slice * 10 + entry));
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<double> values(count);
  for (double& value : values) value = uniform(random) * std::exp2(static_cast<int>(random() % 20));
  return values;
}

inline collective::Rows rowsOf(std::int64_t step, int slice) {
  std::mt19937 random(static_cast<unsigned>(step * 77 + slice));
  collective::Rows rows;
  for (std::int64_t row = 0; row < kRows; ++row) {
    if (random() % 3 == 0) rows.rows.push_back(row);
  }
  for (const double value : numbers(step, slice, 1, rows.rows.size() * kWidth)) {
    rows.values.push_back(static_cast<float>(value));
  }
  return rows;
}

template <typename T>
std::vector<T> as(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

// The plain one: recursion over slices.
template <typename T, typename Leaf>
std::vector<T> canonicalSum(SliceRange range, const Leaf& leaf) {
  if (range.size() == 1) return leaf(range.begin);
  const int middle = splitPoint(range);
  std::vector<T> left = canonicalSum<T>({range.begin, middle}, leaf);
  const std::vector<T> right = canonicalSum<T>({middle, range.end}, leaf);
  for (std::size_t i = 0; i < left.size(); ++i) left[i] += right[i];
  return left;
}

struct Model {
  std::vector<float> weight = std::vector<float>(300 * 41);
  std::vector<float> table = std::vector<float>(kRows * kWidth);
  std::vector<float> bias = std::vector<float>(5);
  std::vector<float> mean = std::vector<float>(9);
  std::vector<double> sums = std::vector<double>(3);
  std::int64_t count = 0;
};

// One worker that has everything.
class Reference {
 public:
  Reference(const OptimizerOptions& optimizer, int slices, double clip)
      : Reference(std::vector(3, optimizer), slices, clip) {}
  // `optimizers`: of weight, table and bias.
  Reference(const std::vector<OptimizerOptions>& optimizers, int slices, double clip)
      : slices_(slices), clip_(clip) {
    for (const std::size_t size : {model.weight.size(), model.table.size(), model.bias.size()}) {
      rules_.push_back(*optim::UpdateRule::make(optimizers[rules_.size()]));
      auto& slots = slots_.emplace_back();
      for (const optim::Slot& slot : rules_.back().slots()) {
        slots.emplace_back(size, static_cast<float>(slot.initial));
      }
    }
    const auto fill = [](std::vector<float>& values, int entry) {
      values = as<float>(numbers(-1, 0, entry, values.size()));
    };
    fill(model.weight, 0);
    fill(model.table, 1);
    fill(model.bias, 2);
  }

  void step(std::int64_t step, double factor) {
    const SliceRange all{0, slices_};
    const auto sum = [&](int entry, std::size_t count) {
      auto values = canonicalSum<float>(
          all, [&](int slice) { return as<float>(numbers(step, slice, entry, count)); });
      for (float& value : values) value += 0.0f;
      return values;
    };
    const auto weight = sum(0, model.weight.size());
    const auto bias = sum(2, model.bias.size());
    // Rows that nobody has stay out of it, whole or not.
    auto whole = canonicalSum<float>(all, [&](int slice) {
      const collective::Rows rows = rowsOf(step, slice);
      std::vector<float> dense(kRows * kWidth);
      for (std::size_t i = 0; i < rows.rows.size(); ++i) {
        std::copy_n(rows.values.data() + i * kWidth, kWidth, dense.data() + rows.rows[i] * kWidth);
      }
      return dense;
    });
    collective::Rows rows;
    for (std::int64_t row = 0; row < kRows; ++row) {
      bool any = false;
      for (int slice = 0; slice < slices_; ++slice) {
        any = any || std::ranges::binary_search(rowsOf(step, slice).rows, row);
      }
      if (!any) continue;
      rows.rows.push_back(row);
      for (std::size_t i = 0; i < kWidth; ++i) {
        rows.values.push_back(whole[static_cast<std::size_t>(row) * kWidth + i] + 0.0f);
      }
    }
    double scale = 1;
    if (clip_ > 0) {
      double squares = optim::sumOfSquares(std::span(bias));
      double table = 0;
      for (std::size_t row = 0; row < rows.rows.size(); ++row) {
        table +=
            optim::sumOfSquares(std::span<const float>(rows.values).subspan(row * kWidth, kWidth));
      }
      squares += table;
      squares += optim::sumOfSquares(std::span(weight));
      scale = optim::clipFactor(std::sqrt(squares), clip_);
    }
    const auto update = [&](int tensor) {
      return optim::Update{.step = step + 1,
                           .lr = learningRate(rules_[tensor].options()) * factor,
                           .gradScale = scale};
    };
    rules_[0].apply<float>(update(0), model.weight, weight, spans(0));
    rules_[1].applyRows<float>(update(1), model.table, kWidth, rows.rows, rows.values, spans(1));
    rules_[2].apply<float>(update(2), model.bias, bias, spans(2));
    model.mean = sum(3, model.mean.size());
    model.sums = canonicalSum<double>(
        all, [&](int slice) { return numbers(step, slice, 4, model.sums.size()); });
    model.count = step;
  }

  std::vector<std::span<float>> spans(std::size_t tensor) {
    std::vector<std::span<float>> spans;
    for (auto& slot : slots_[tensor]) spans.emplace_back(slot);
    return spans;
  }

  Model model;

 private:
  std::vector<optim::UpdateRule> rules_;
  const int slices_;
  const double clip_;
  std::vector<std::vector<std::vector<float>>> slots_;
};

inline double factorAt(std::int64_t step) { return 1.0 / static_cast<double>(step + 1); }

template <typename T>
std::vector<T> entryOf(const Client& client, int entry) {
  const Entry& e = client.layout().entries()[entry];
  std::vector<T> values(e.count());
  std::memcpy(values.data(), client.area().data() + client.layout().offsetOf(entry), e.bytes());
  return values;
}

// A worker's steps.
class Trainee {
 public:
  Trainee(Client& client, int rank, int slices, int workers)
      : client_(client), map_(*SliceMap::even(slices, workers)), rank_(rank) {}

  // Worker 0 brings the first values, or (`kept`: updates made) goes on with what servers have
  // kept.
  void begin(const Model& model, std::int64_t kept = -1) {
    if (rank_ == 0 && kept >= 0) {
      const auto step = client_.resume();
      ASSERT_TRUE(step.ok()) << step.status();
      EXPECT_EQ(*step, kept);
    } else if (rank_ == 0) {
      const auto put = [&](int entry, const auto& values) {
        std::memcpy(client_.area().data() + client_.layout().offsetOf(entry), values.data(),
                    values.size() * sizeof(values[0]));
      };
      put(0, model.weight);
      put(2, model.bias);
      for (std::size_t block = 0; block < client_.layout().blocks().size(); ++block) {
        const Block& b = client_.layout().blocks()[block];
        ASSERT_TRUE(
            client_.fill(static_cast<int>(block), -1, client_.area().subspan(b.offset, b.bytes))
                .ok());
      }
      for (std::size_t part = 0; part < client_.layout().partitions().size(); ++part) {
        const Partition& p = client_.layout().partitions()[part];
        ASSERT_TRUE(client_
                        .fillRows(static_cast<int>(part), -1, 0,
                                  std::span<const float>(model.table)
                                      .subspan(p.begin * kWidth, (p.end - p.begin) * kWidth))
                        .ok());
      }
      const std::vector<std::int64_t> steps(client_.layout().entries().size());
      ASSERT_TRUE(client_.start(0, steps).ok());
    }
    const auto turn = client_.begin();
    ASSERT_TRUE(turn.ok()) << turn.status();
  }

  Result<Turn> step(std::int64_t step, bool empty = false) {
    const auto subtrees = map_.subtrees(rank_);
    const auto all = client_.layout().entries();
    Finish finish;
    finish.share = static_cast<double>(map_.range(rank_).size()) / map_.slices();
    finish.factor = factorAt(step);
    finish.empty = empty;
    finish.present.assign(all.size(), 1);
    std::vector<collective::Rows> leaves;
    for (std::size_t i = 0; i < subtrees.size(); ++i) {
      const auto put = [&](int entry, const auto& values) {
        std::memcpy(client_.partial(static_cast<int>(i)).data() + client_.layout().offsetOf(entry),
                    values.data(), values.size() * sizeof(values[0]));
      };
      for (const int entry : {0, 2, 3}) {
        put(entry, canonicalSum<float>(subtrees[i], [&](int slice) {
              return as<float>(numbers(step, slice, entry, all[entry].count()));
            }));
      }
      put(4, canonicalSum<double>(
                 subtrees[i], [&](int slice) { return numbers(step, slice, 4, all[4].count()); }));
      put(5, std::vector<std::int64_t>{step});
      leaves.push_back(foldSlices(step, subtrees[i]));
    }
    COLLA_TRY(client_.pushRows(1, leaves));
    for (int block = 0; block < static_cast<int>(client_.layout().blocks().size()); ++block) {
      client_.push(block);
    }
    return client_.finish(finish);
  }

 private:
  static collective::Rows foldSlices(std::int64_t step, SliceRange range) {
    if (range.size() == 1) return rowsOf(step, range.begin);
    const int middle = splitPoint(range);
    return collective::mergeRows(foldSlices(step, {range.begin, middle}),
                                 foldSlices(step, {middle, range.end}), kWidth);
  }

  Client& client_;
  const SliceMap map_;
  const int rank_;
};

inline std::vector<float> tableOf(Client& client) {
  std::vector<std::int64_t> rows(kRows);
  std::iota(rows.begin(), rows.end(), 0);
  std::vector<float> values(kRows * kWidth);
  const Status status = client.pullRows(1, rows, values);
  EXPECT_TRUE(status.ok()) << status;
  return values;
}

template <typename T>
bool sameBits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

}  // namespace colla::ps
