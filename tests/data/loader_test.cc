#include "data/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <new>
#include <stdexcept>
#include <thread>

#include "colla/array_dataset.h"
#include "colla/error.h"
#include "support/error_of.h"
#include "support/eventually.h"

namespace colla::data {
namespace {

using namespace std::chrono_literals;
using test::eventually;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Samples are their own numbers; the second field is the first draw of the stream, for each of
// them.
class ProbeDataset : public Dataset {
 public:
  explicit ProbeDataset(std::int64_t size) : size_(size) {}

  std::int64_t size() const override { return size_; }
  std::vector<Field> fields() const override {
    return {{"number", DataType::kInt64, {}}, {"draw", DataType::kInt64, {}}};
  }
  std::string describe() const override { return "probe"; }
  Result<Batch> read(std::span<const std::int64_t> indices, Random& random) const override {
    ++started;
    const std::int64_t alive = ++*alive_;
    std::int64_t most = mostAlive.load();
    while (alive > most && !mostAlive.compare_exchange_weak(most, alive)) {
    }
    // Counted until the batch is gone.
    const std::shared_ptr<void> counted(nullptr, [count = alive_](void*) { --*count; });
    if (slow) slow(indices);
    const auto count = static_cast<std::int64_t>(indices.size());
    auto memory = std::make_shared<std::pair<Array, std::shared_ptr<void>>>(
        *Array::allocate(DataType::kInt64, {count}), counted);
    const Array samples = Array::view(memory, memory->first.data(), DataType::kInt64, {count});
    for (std::size_t i = 0; i < indices.size(); ++i) {
      if (indices[i] == bad) return {StatusCode::kIo, "file.bin: record 17 is damaged"};
      samples.as<std::int64_t>()[i] = indices[i];
    }
    const Array draw = *Array::allocate(DataType::kInt64, {count});
    std::ranges::fill(draw.as<std::int64_t>(), static_cast<std::int64_t>(random.next()));
    Batch batch{samples, draw};
    if (spoil) spoil(indices, batch);
    return batch;
  }

  std::function<void(std::span<const std::int64_t>)> slow;
  std::function<void(std::span<const std::int64_t>, Batch&)> spoil;
  std::int64_t bad = -1;
  mutable std::atomic<std::int64_t> started = 0;
  mutable std::atomic<std::int64_t> mostAlive = 0;

 private:
  std::int64_t size_;
  std::shared_ptr<std::atomic<std::int64_t>> alive_ =
      std::make_shared<std::atomic<std::int64_t>>(0);
};

std::vector<std::int64_t> numbersOf(const Batch& batch) {
  const auto numbers = batch[0].as<std::int64_t>();
  return {numbers.begin(), numbers.end()};
}

std::unique_ptr<Loader> makeLoader(std::shared_ptr<const Dataset> dataset, const Order& order,
                                   const LoaderOptions& options) {
  auto loader = Loader::create(std::move(dataset), order, options);
  EXPECT_TRUE(loader.ok()) << loader.status();
  return *std::move(loader);
}

void expectBatchOf(const Result<Batch>& batch, const Order& order, std::int64_t step, int slice) {
  ASSERT_TRUE(batch.ok()) << batch.status();
  const Position position = order.position(step);
  std::vector<std::int64_t> expected;
  EpochOrder(order, position.epoch).indices(order.slice(position.batch, slice), expected);
  EXPECT_EQ(numbersOf(*batch), expected) << "step " << step << ", slice " << slice;
  EXPECT_THAT(
      (*batch)[1].as<std::int64_t>(),
      ::testing::Each(static_cast<std::int64_t>(Random(order.options().seed, step, slice).next())));
}

class LoaderTest : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Threads, LoaderTest, ::testing::Values(0, 1, 2, 8));

TEST_P(LoaderTest, GivesSlicesOfStepsInOrderAcrossEpochs) {
  const auto dataset = std::make_shared<ProbeDataset>(103);
  // Batches are ready in another order than they were begun.
  dataset->slow = [](std::span<const std::int64_t> indices) {
    const std::int64_t turns = indices.empty() ? 0 : indices[0] % 7 * 20;
    for (std::int64_t i = 0; i < turns; ++i) std::this_thread::yield();
  };
  for (const bool shuffle : {true, false}) {
    const Order order = *Order::create({103, 10, 5, 3, shuffle});
    const auto loader = makeLoader(
        dataset, order, {.slices = {1, 4}, .endStep = 33, .threads = GetParam(), .ahead = 8});
    for (std::int64_t step = 0; step < 33; ++step) {
      for (int slice = 1; slice < 4; ++slice) expectBatchOf(loader->next(), order, step, slice);
    }
    EXPECT_THAT(toString(loader->next().status()), HasSubstr("step 33 is behind the last one"));
  }
}

// Contract: whoever reads a slice, it is the same; together the workers read each sample once.
TEST_P(LoaderTest, WorkersShareAnEpoch) {
  const auto dataset = std::make_shared<ProbeDataset>(47);
  const Order order = *Order::create({47, 9, 5, 1, true});
  for (const auto& cuts : {std::vector{0, 5}, std::vector{0, 2, 3, 5}, std::vector{0, 4, 5}}) {
    std::vector<int> seen(47);
    for (std::size_t worker = 0; worker + 1 < cuts.size(); ++worker) {
      const SliceRange slices{cuts[worker], cuts[worker + 1]};
      const auto loader = makeLoader(dataset, order, {.slices = slices, .threads = GetParam()});
      for (std::int64_t step = 0; step < order.batchesPerEpoch(); ++step) {
        for (int slice = slices.begin; slice < slices.end; ++slice) {
          const auto batch = loader->next();
          expectBatchOf(batch, order, step, slice);
          for (const std::int64_t sample : numbersOf(*batch)) ++seen[sample];
        }
      }
    }
    EXPECT_THAT(seen, ::testing::Each(1));
  }
}

TEST_P(LoaderTest, StartsAnywhereWithoutReadingWhatLiesBefore) {
  const auto dataset = std::make_shared<ProbeDataset>(1000);
  const Order order = *Order::create({1000, 10, 2, 1, true});
  const auto loader =
      makeLoader(dataset, order, {.slices = {0, 2}, .firstStep = 12'345, .threads = GetParam()});
  expectBatchOf(loader->next(), order, 12'345, 0);
  expectBatchOf(loader->next(), order, 12'345, 1);
  expectBatchOf(loader->next(), order, 12'346, 0);
  EXPECT_LE(dataset->started, 3 + LoaderOptions().ahead);
}

TEST_P(LoaderTest, MemoryIsBounded) {
  const auto dataset = std::make_shared<ProbeDataset>(1000);
  const Order order = *Order::create({.samples = 1000, .batch = 10});
  constexpr int kAhead = 3;
  const auto loader = makeLoader(dataset, order, {.threads = GetParam(), .ahead = kAhead});
  if (GetParam() > 0) {
    // It does read ahead, before anybody asks, and then stops.
    EXPECT_TRUE(eventually([&] { return dataset->started == kAhead; }));
  }
  for (int i = 0; i < 2000; ++i) {
    const auto batch = loader->next();
    ASSERT_TRUE(batch.ok());
    EXPECT_LE(dataset->started, i + 1 + kAhead);
  }
  // Those ahead, and the one that the caller holds.
  EXPECT_LE(dataset->mostAlive, kAhead + 1);
}

TEST_P(LoaderTest, ErrorsComeInTheirPlaceAndStay) {
  const auto dataset = std::make_shared<ProbeDataset>(100);
  dataset->bad = 57;
  const Order order = *Order::create({100, 10, 2, 1, false});
  const auto loader = makeLoader(dataset, order, {.slices = {0, 2}, .threads = GetParam()});
  for (int i = 0; i < 11; ++i) EXPECT_TRUE(loader->next().ok());
  for (int i = 0; i < 3; ++i) {
    const auto batch = loader->next();
    EXPECT_EQ(batch.status().code(), StatusCode::kIo);
    EXPECT_THAT(toString(batch.status()),
                AllOf(HasSubstr("step 6, slice 1"), HasSubstr("file.bin: record 17 is damaged")));
  }
}

// Contract: what a program's own data set throws, in whichever thread, is an error in its place.
TEST_P(LoaderTest, WhatADataSetThrowsIsAnError) {
  const auto errorOf = [](const std::function<void()>& raise) {
    const auto dataset = std::make_shared<ProbeDataset>(100);
    dataset->slow = [&](std::span<const std::int64_t> indices) {
      if (std::ranges::count(indices, 57) > 0) raise();
    };
    const Order order = *Order::create({100, 10, 2, 1, false});
    const auto loader =
        makeLoader(dataset, order, {.slices = {0, 2}, .threads = GetParam(), .ahead = 16});
    // The twelfth batch throws, in a thread where there are some.
    EXPECT_TRUE(GetParam() == 0 || eventually([&] { return dataset->started >= 12; }));
    for (int i = 0; i < 11; ++i) EXPECT_TRUE(loader->next().ok());
    const Status status = loader->next().status();
    EXPECT_EQ(toString(loader->next().status()), toString(status));
    return status;
  };
  const Status own = errorOf([] { throw Error(StatusCode::kIo, "shard 3 is gone"); });
  EXPECT_EQ(own.code(), StatusCode::kIo);
  EXPECT_EQ(own.message(), "data of step 6, slice 1: shard 3 is gone");
  const Status standard = errorOf([] { throw std::runtime_error("no column \"age\"\nframe #0"); });
  EXPECT_EQ(standard.code(), StatusCode::kInternal);
  EXPECT_EQ(standard.message(), "data of step 6, slice 1: no column \"age\"");
  EXPECT_EQ(errorOf([] { throw std::bad_alloc(); }).code(), StatusCode::kNoMemory);
  EXPECT_THAT(toString(errorOf([] { throw 7; })),
              AllOf(HasSubstr("step 6, slice 1"), HasSubstr("no std::exception")));
}

// Contract: a batch that is not what fields() say is an error that names data set, field, samples,
// expected and found; whatever is wrong with it.
TEST_P(LoaderTest, ABatchThatIsNotWhatItsFieldsSayIsAnError) {
  const auto errorOf = [](const std::function<void(Batch&)>& spoil) {
    const auto dataset = std::make_shared<ProbeDataset>(100);
    dataset->spoil = [&](std::span<const std::int64_t> indices, Batch& batch) {
      if (std::ranges::count(indices, 57) > 0) spoil(batch);
    };
    const Order order = *Order::create({100, 10, 2, 1, false});
    const auto loader = makeLoader(dataset, order, {.slices = {0, 2}, .threads = GetParam()});
    for (int i = 0; i < 11; ++i) EXPECT_TRUE(loader->next().ok());
    return loader->next().status();
  };
  const auto replaced = [&](DataType type, const std::vector<std::int64_t>& shape) {
    return toString(errorOf([&](Batch& batch) { batch[1] = *Array::allocate(type, shape); }));
  };
  const std::string read =
      "invalid argument: data of step 6, slice 1: data set \"probe\": read() of 5 samples (55, 56, "
      "57, …) gave ";
  EXPECT_EQ(replaced(DataType::kInt64, {4}), read + "field 1 (draw) as int64 4, expected int64 5");
  EXPECT_EQ(replaced(DataType::kInt64, {5, 1}),
            read + "field 1 (draw) as int64 5x1, expected int64 5");
  EXPECT_EQ(replaced(DataType::kFloat32, {5}),
            read + "field 1 (draw) as float32 5, expected int64 5");
  EXPECT_EQ(toString(errorOf([](Batch& batch) { batch.pop_back(); })),
            read + "1 field, but fields() has 2 (number, draw): field 1 (draw) is missing");
  EXPECT_EQ(toString(errorOf([](Batch& batch) { batch.push_back(batch[0]); })),
            read + "3 fields, but fields() has 2 (number, draw)");
}

// A dimension that varies may have any length, others may not.
TEST(BatchCheckTest, LengthsVaryWhereFieldsSaySo) {
  struct Words : ProbeDataset {
    Words() : ProbeDataset(10) {}
    std::vector<Field> fields() const override { return {{"words", DataType::kInt64, {-1, 3}}}; }
  };
  const BatchCheck check(std::make_shared<Words>());
  const std::vector<std::int64_t> indices = {4, 2};
  const auto of = [](std::vector<std::int64_t> shape) {
    return Batch{*Array::allocate(DataType::kInt64, std::move(shape))};
  };
  EXPECT_TRUE(check.check(indices, of({2, 1, 3})).ok());
  EXPECT_TRUE(check.check(indices, of({2, 70, 3})).ok());
  EXPECT_EQ(check.check(indices, of({2, 70, 4})).message(),
            "data set \"probe\": read() of 2 samples (4, 2) gave field 0 (words) as int64 2x70x4, "
            "expected int64 2x?x3");
  EXPECT_TRUE(check.check({}, of({0, 1, 3})).ok());
  EXPECT_TRUE(check.check({}, {}).ok());
  EXPECT_FALSE(check.check({}, of({1, 1, 3})).ok());
}

TEST_P(LoaderTest, EndsWithoutReadingOn) {
  const auto dataset = std::make_shared<ProbeDataset>(1000);
  // As long as a slow disk takes; all that was asked for would take a minute.
  dataset->slow = [](std::span<const std::int64_t>) { std::this_thread::sleep_for(30ms); };
  const Order order = *Order::create({.samples = 1000, .batch = 1});
  auto loader = makeLoader(dataset, order, {.threads = GetParam(), .ahead = 2000});
  EXPECT_TRUE(eventually([&] { return dataset->started >= GetParam(); }));
  const std::int64_t before = dataset->started;
  loader.reset();
  EXPECT_LE(dataset->started, before + 2 * GetParam());
}

TEST(LoaderThreadsTest, NoneForDataInMemory) {
  const auto memory =
      ArrayDataset::create("test", {{"x", *Array::allocate(DataType::kFloat32, {10, 3})}});
  const Order order = *Order::create({.samples = 10, .batch = 1});
  EXPECT_EQ(makeLoader(*memory, order, {})->threads(), 0);
  EXPECT_GT(makeLoader(std::make_shared<ProbeDataset>(10), order, {})->threads(), 0);
}

TEST(LoaderThreadsTest, RefusesWhatDoesNotFit) {
  const auto dataset = std::make_shared<ProbeDataset>(10);
  const Order order = *Order::create({.samples = 10, .batch = 5, .slices = 2});
  const auto errorOf = [&](const LoaderOptions& options) {
    return test::errorOf(Loader::create(dataset, order, options));
  };
  EXPECT_THAT(errorOf({.slices = {1, 3}}), HasSubstr("slices 1 to 3 of 2"));
  EXPECT_THAT(errorOf({.slices = {1, 1}}), HasSubstr("slices 1 to 1 of 2"));
  EXPECT_THAT(errorOf({.firstStep = 3, .endStep = 2}), HasSubstr("steps 3 to 2"));
  EXPECT_THAT(errorOf({.ahead = 0}), HasSubstr("0 batches ahead"));
  const Order other = *Order::create({.samples = 11, .batch = 5});
  EXPECT_THAT(toString(Loader::create(dataset, other, {}).status()),
              HasSubstr("an order of 11 samples does not fit a data set of 10"));
}

}  // namespace
}  // namespace colla::data
