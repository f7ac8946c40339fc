// Servers against a reference of a few lines: the canonical sum over slices, the optimizer on whole
// tensors.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>

#include "collective/partial_sums.h"
#include "optim/norm.h"
#include "optim/update_rule.h"
#include "ps/crew.h"
#include "ps/server.h"

namespace colla::ps {
namespace {

using test::Wire;

constexpr std::int64_t kRows = 50;
constexpr std::size_t kWidth = 6;

std::vector<Entry> entries() {
  return {{.name = "weight", .shape = {300, 41}, .order = 2},
          {.name = "table", .kind = Kind::kRows, .shape = {kRows, kWidth}, .order = 1},
          {.name = "bias", .shape = {5}, .order = 0},
          {.name = "mean", .kind = Kind::kMean, .shape = {9}},
          {.name = "sums", .kind = Kind::kSum, .type = DataType::kFloat64, .shape = {3}},
          {.name = "count", .kind = Kind::kCopy, .type = DataType::kInt64, .shape = {}}};
}

// What `slice` has in `step`: magnitudes that make a wrong order visible.
std::vector<double> numbers(std::int64_t step, int slice, int entry, std::size_t count) {
  std::mt19937_64 random(static_cast<std::uint64_t>(step * 1000 + slice * 10 + entry));
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<double> values(count);
  for (double& value : values) value = uniform(random) * std::exp2(static_cast<int>(random() % 20));
  return values;
}

collective::Rows rowsOf(std::int64_t step, int slice) {
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
      : rule_(*optim::UpdateRule::make(optimizer)), slices_(slices), clip_(clip) {
    for (const std::size_t size : {model.weight.size(), model.table.size(), model.bias.size()}) {
      auto& slots = slots_.emplace_back();
      for (const optim::Slot& slot : rule_.slots()) {
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
    const optim::Update update{
        .step = step + 1, .lr = learningRate(rule_.options()) * factor, .gradScale = scale};
    rule_.apply<float>(update, model.weight, weight, spans(0));
    rule_.applyRows<float>(update, model.table, kWidth, rows.rows, rows.values, spans(1));
    rule_.apply<float>(update, model.bias, bias, spans(2));
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
  const optim::UpdateRule rule_;
  const int slices_;
  const double clip_;
  std::vector<std::vector<std::vector<float>>> slots_;
};

double factorAt(std::int64_t step) { return 1.0 / static_cast<double>(step + 1); }

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
    client_.pushRows(1, leaves);
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

std::vector<float> tableOf(Client& client) {
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

struct Case {
  Wire wire;
  int workers;
  int servers;
  int slices;
  const char* optimizer;
  double clip;
  int threads = 1;  // Of a server.
};

std::string nameOf(const ::testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  return toString(c.wire) + "_" + std::to_string(c.workers) + "_workers_" +
         std::to_string(c.servers) + "_servers_" + std::to_string(c.slices) + "_slices_" +
         c.optimizer + (c.clip > 0 ? "_clip" : "") + "_" + std::to_string(c.threads) + "_threads";
}

class ServerBitsTest : public ::testing::TestWithParam<Case> {};

TEST_P(ServerBitsTest, SyncEqualsOneWorkerThatHasEverything) {
  const Case& c = GetParam();
  Crew crew(c.wire, c.workers, c.servers, std::chrono::seconds(20), c.threads);
  Declaration declaration = declarationFor(entries(), c.workers, c.servers, c.slices);
  declaration.layout.blockBytes = 1;  // As many blocks as there can be.
  declaration.optimizer = *parseOptimizer(c.optimizer);
  declaration.layout.partitions = c.servers > 1 ? 5 : 0;
  declaration.clipNorm = c.clip;
  crew.run([&](int rank) {
    auto client = Client::connect(crew.client(rank), declaration);
    ASSERT_TRUE(client.ok()) << client.status();
    Reference reference(declaration.optimizer, c.slices, c.clip);
    Trainee trainee(**client, rank, c.slices, c.workers);
    trainee.begin(reference.model);
    EXPECT_TRUE(sameBits(entryOf<float>(**client, 0), reference.model.weight));
    for (std::int64_t step = 0; step < 5; ++step) {
      const auto turn = trainee.step(step);
      ASSERT_TRUE(turn.ok()) << turn.status();
      EXPECT_EQ(turn->step, step + 1);
      EXPECT_EQ(turn->late, 0);
      EXPECT_FALSE(turn->dropped);
      reference.step(step, factorAt(step));
      EXPECT_TRUE(sameBits(entryOf<float>(**client, 0), reference.model.weight)) << step;
      EXPECT_TRUE(sameBits(entryOf<float>(**client, 2), reference.model.bias)) << step;
      EXPECT_TRUE(sameBits(entryOf<float>(**client, 3), reference.model.mean)) << step;
      EXPECT_TRUE(sameBits(entryOf<double>(**client, 4), reference.model.sums)) << step;
      EXPECT_EQ(entryOf<std::int64_t>(**client, 5)[0], step);
      EXPECT_TRUE(sameBits(tableOf(**client), reference.model.table)) << step;
    }
    EXPECT_TRUE((*client)->leave().ok());
  });
  for (const Status& status : crew.servers()) EXPECT_TRUE(status.ok()) << status;
}

INSTANTIATE_TEST_SUITE_P(Shapes, ServerBitsTest,
                         ::testing::Values(Case{Wire::kShared, 1, 1, 1, "sgd", 0},
                                           Case{Wire::kShared, 2, 1, 2, "adam", 0},
                                           Case{Wire::kShared, 2, 1, 2, "adam", 0, 3},
                                           Case{Wire::kShared, 3, 2, 5, "momentum", 0, 2},
                                           Case{Wire::kShared, 3, 3, 7, "adagrad", 2.5, 3},
                                           Case{Wire::kMessages, 2, 1, 2, "adam", 1},
                                           Case{Wire::kMessages, 2, 1, 2, "adam", 1, 4},
                                           Case{Wire::kMessages, 4, 2, 6, "rmsprop", 0, 2},
                                           Case{Wire::kShm, 3, 2, 4, "adam", 3, 2},
                                           Case{Wire::kShm, 2, 1, 3, "sgd", 0},
                                           Case{Wire::kTcp, 2, 2, 2, "adamw", 0, 2},
                                           Case{Wire::kTcpPlain, 3, 1, 5, "momentum", 1}),
                         nameOf);

class EpochsTest : public ::testing::TestWithParam<Wire> {};
INSTANTIATE_TEST_SUITE_P(Wires, EpochsTest,
                         ::testing::Values(Wire::kShared, Wire::kMessages, Wire::kShm,
                                           Wire::kTcpPlain),
                         [](const auto& wire) { return toString(wire.param); });

// Three workers, then two of them, then four, with ranks that change: the bits of one that has
// everything and never stops.
TEST_P(EpochsTest, OtherWorkersGoOnWithTheSameBits) {
  constexpr int kSlices = 6;
  constexpr std::int64_t kSteps = 3;  // Of each epoch.
  const Crew::Epochs epochs = {{0, 1, 2}, {2, 0}, {3, 1, 0, 2}};
  Crew crew(GetParam(), 4, 2);
  crew.runEpochs(epochs, [&](int epoch, int rank, const ClientOptions& options) {
    Declaration declaration = declarationFor(entries(), options.workers, 2, kSlices);
    declaration.optimizer = *parseOptimizer("adam");
    declaration.clipNorm = 2.5;
    auto client = Client::connect(options, declaration);
    ASSERT_TRUE(client.ok()) << client.status();
    Reference reference(declaration.optimizer, kSlices, declaration.clipNorm);
    const std::int64_t before = epoch * kSteps;
    for (std::int64_t step = 0; step < before; ++step) reference.step(step, factorAt(step));
    Trainee trainee(**client, rank, kSlices, options.workers);
    trainee.begin(reference.model, epoch == 0 ? -1 : before);
    EXPECT_TRUE(sameBits(entryOf<float>(**client, 0), reference.model.weight)) << epoch;
    for (std::int64_t step = before; step < before + kSteps; ++step) {
      const auto turn = trainee.step(step);
      ASSERT_TRUE(turn.ok()) << turn.status();
      EXPECT_EQ(turn->step, step + 1);
      reference.step(step, factorAt(step));
      EXPECT_TRUE(sameBits(entryOf<float>(**client, 0), reference.model.weight)) << step;
      EXPECT_TRUE(sameBits(tableOf(**client), reference.model.table)) << step;
    }
    if (rank == 0) {
      const auto statistics = (*client)->statistics();
      ASSERT_TRUE(statistics.ok());
      EXPECT_EQ(statistics->taken, epoch == 0 ? 9 : epoch == 1 ? 15 : 27);
    }
    const bool last = epoch + 1 == static_cast<int>(epochs.size());
    EXPECT_TRUE((last ? (*client)->leave() : (*client)->leaveEpoch()).ok());
  });
  for (const Status& status : crew.servers()) EXPECT_TRUE(status.ok()) << status;
}

// Whatever is not the same training: a different optimizer, or workers that left for something
// else.
TEST(EpochsRefusalTest, NobodyGoesOnWithADifferentModel) {
  Crew crew(Wire::kShared, 1, 2);
  crew.run([&](int) {
    for (const bool leavesEpoch : {true, false, true}) {
      Declaration declaration = declarationFor(entries(), 1, 2, 2);
      declaration.optimizer = *parseOptimizer(leavesEpoch ? "adam" : "sgd");
      auto client = Client::connect(crew.client(0), declaration);
      ASSERT_TRUE(client.ok()) << client.status();
      EXPECT_EQ((*client)->resume().status().code(), StatusCode::kInvalidArgument);
      const Reference reference(declaration.optimizer, 2, 0);
      Trainee trainee(**client, 0, 2, 1);
      trainee.begin(reference.model);
      ASSERT_TRUE(trainee.step(0).ok());
      EXPECT_TRUE((leavesEpoch ? (*client)->leaveEpoch() : (*client)->leave(true)).ok());
    }
    auto client = Client::connect(crew.client(0), declarationFor(entries(), 1, 2, 1));
    ASSERT_TRUE(client.ok()) << client.status();
    EXPECT_TRUE((*client)->leave().ok());
  });
  for (const Status& status : crew.servers()) EXPECT_TRUE(status.ok()) << status;
}

TEST(SnapshotTest, IsOfOneStepWhileTrainingGoesOn) {
  Crew crew(Wire::kShared, 2, 2);
  Declaration declaration = declarationFor(entries(), 2, 2, 2);
  declaration.optimizer = *parseOptimizer("momentum");
  crew.run([&](int rank) {
    auto client = Client::connect(crew.client(rank), declaration);
    ASSERT_TRUE(client.ok()) << client.status();
    Reference reference(declaration.optimizer, 2, 0);
    Trainee trainee(**client, rank, 2, 2);
    trainee.begin(reference.model);
    for (std::int64_t step = 0; step < 3; ++step) {
      ASSERT_TRUE(trainee.step(step).ok());
      reference.step(step, factorAt(step));
    }
    std::optional<Snapshots> snapshots;
    if (rank == 0) {
      snapshots.emplace(crew.client(rank), (*client)->layout());
      const auto taken = snapshots->take();
      ASSERT_TRUE(taken.ok()) << taken.status();
      EXPECT_EQ(*taken, 3);
    }
    for (std::int64_t step = 3; step < 6; ++step) ASSERT_TRUE(trainee.step(step).ok());
    if (rank == 0) {
      const auto steps = snapshots->steps();
      ASSERT_TRUE(steps.ok());
      EXPECT_EQ(steps->at(0), 3);
      std::vector<float> weight(reference.model.weight.size());
      std::vector<float> momentum(weight.size());
      for (std::size_t block = 0; block < (*client)->layout().blocks().size(); ++block) {
        const Block& b = (*client)->layout().blocks()[block];
        std::vector<std::byte> values(b.bytes);
        std::vector<std::byte> slot(b.bytes);
        ASSERT_TRUE(snapshots->readBlock(static_cast<int>(block), -1, values).ok());
        ASSERT_TRUE(snapshots->readBlock(static_cast<int>(block), 0, slot).ok());
        for (const Piece& piece : b.pieces) {
          if (piece.entry != 0) continue;
          std::memcpy(weight.data() + piece.begin, values.data() + piece.offset - b.offset,
                      piece.count * sizeof(float));
          std::memcpy(momentum.data() + piece.begin, slot.data() + piece.offset - b.offset,
                      piece.count * sizeof(float));
        }
      }
      EXPECT_TRUE(sameBits(weight, reference.model.weight));
      const auto expected = reference.spans(0)[0];
      EXPECT_TRUE(sameBits(momentum, std::vector<float>(expected.begin(), expected.end())));
      std::vector<float> table(kRows * kWidth);
      for (std::size_t part = 0; part < (*client)->layout().partitions().size(); ++part) {
        const Partition& p = (*client)->layout().partitions()[part];
        ASSERT_TRUE(
            snapshots
                ->readRows(static_cast<int>(part), -1, 0,
                           std::span(table).subspan(p.begin * kWidth, (p.end - p.begin) * kWidth))
                .ok());
      }
      EXPECT_TRUE(sameBits(table, reference.model.table));
    }
    EXPECT_TRUE((*client)->leave().ok());
  });
  for (const Status& status : crew.servers()) EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace colla::ps
