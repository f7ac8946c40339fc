#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "colla/array_dataset.h"

namespace colla {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

bool aligned(const Array& array) {
  return reinterpret_cast<std::uintptr_t>(array.data()) % Array::kAlignment == 0;
}

template <typename T>
Array counting(std::vector<std::int64_t> shape) {
  const Array array = *Array::allocate(dataTypeOf<T>(), std::move(shape));
  std::iota(array.as<T>().begin(), array.as<T>().end(), T{0});
  return array;
}

std::shared_ptr<const ArrayDataset> makeDataset(std::vector<ArrayField> fields) {
  auto dataset = ArrayDataset::create("test", std::move(fields));
  EXPECT_TRUE(dataset.ok()) << dataset.status();
  return *dataset;
}

Batch readAll(const Dataset& dataset, const std::vector<std::int64_t>& indices) {
  Random random(0);
  auto batch = dataset.read(indices, random);
  EXPECT_TRUE(batch.ok()) << batch.status();
  for (const Array& array : *batch) {
    EXPECT_TRUE(aligned(array));
    EXPECT_EQ(array.rows(), std::ssize(indices));
  }
  return *batch;
}

TEST(ArrayTest, IsAlignedWhateverItsSize) {
  ArrayPool pool;
  for (std::int64_t size = 0; size < 300; ++size) {
    const auto array = Array::allocate(DataType::kUInt8, {size});
    const auto pooled = pool.allocate(DataType::kUInt8, {size});
    ASSERT_TRUE(array.ok() && pooled.ok());
    EXPECT_TRUE(aligned(*array) && aligned(*pooled));
    EXPECT_EQ(array->bytes().size(), size);
    EXPECT_EQ(pooled->bytes().size(), size);
  }
}

TEST(ArrayTest, RefusesWhatCannotBe) {
  EXPECT_EQ(Array::allocate(DataType::kInt64, {3, -1}).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(Array::allocate(DataType::kInt64, {1LL << 40, 1LL << 40}).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(ArrayTest, PoolGivesMemoryAgainOnlyWhenNobodyHoldsIt) {
  ArrayPool pool;
  Array first = *pool.allocate(DataType::kFloat32, {1000});
  const Array copy = first;
  first = *pool.allocate(DataType::kFloat32, {1000});
  EXPECT_NE(first.data(), copy.data());
  std::byte* freed = first.data();
  first = Array();
  EXPECT_EQ(pool.allocate(DataType::kFloat32, {990})->data(), freed);
  // Not for something small: it would be lost for the next large one.
  EXPECT_NE(pool.allocate(DataType::kFloat32, {10})->data(), freed);
}

TEST(ArrayTest, OutlivesItsPool) {
  Array array;
  {
    ArrayPool pool;
    array = *pool.allocate(DataType::kFloat32, {100});
  }
  array.as<float>()[99] = 1;
  EXPECT_EQ(array.as<float>()[99], 1);
}

TEST(ArrayDatasetTest, GathersRowsInTheOrderAsked) {
  const auto dataset = makeDataset({{"x", counting<float>({10, 2, 3})},
                                    {"y", counting<std::int64_t>({10})},
                                    {"z", counting<std::int16_t>({10, 1})}});
  const Batch batch = readAll(*dataset, {7, 0, 7});
  EXPECT_THAT(batch[0].shape(), ElementsAre(3, 2, 3));
  EXPECT_THAT(batch[0].as<float>(),
              ElementsAre(42, 43, 44, 45, 46, 47, 0, 1, 2, 3, 4, 5, 42, 43, 44, 45, 46, 47));
  EXPECT_THAT(batch[1].as<std::int64_t>(), ElementsAre(7, 0, 7));
  EXPECT_THAT(batch[2].as<std::int16_t>(), ElementsAre(7, 0, 7));
  EXPECT_EQ(dataset->describe(), "test: 10 samples of x float32 2x3, y int64, z int16 1");
}

TEST(ArrayDatasetTest, ConsecutiveRowsAreAViewWhereTheyAreAligned) {
  const Array rows = counting<float>({100, 8});  // Every second row starts on 64 bytes.
  const auto dataset = makeDataset({{"x", rows}});
  const Batch view = readAll(*dataset, {4, 5, 6});
  EXPECT_EQ(view[0].data(), rows.data() + 4 * 32);
  const Batch copy = readAll(*dataset, {5, 6, 7});
  EXPECT_TRUE(copy[0].data() < rows.data() || copy[0].data() >= rows.data() + rows.bytes().size());
  EXPECT_EQ(copy[0].as<float>().front(), 40);
  EXPECT_EQ(copy[0].as<float>().back(), 63);
}

TEST(ArrayDatasetTest, AViewKeepsTheMemoryOfItsDataSet) {
  Batch batch = readAll(*makeDataset({{"x", counting<float>({100, 16})}}), {1, 2});
  EXPECT_EQ(batch[0].as<float>()[0], 16);
}

TEST(ArrayDatasetTest, BytesBecomeUnitFloatsAsByDivision) {
  const Array bytes = counting<std::uint8_t>({256, 1});
  const auto dataset = makeDataset({{"x", bytes, true}});
  EXPECT_EQ(dataset->fields()[0].type, DataType::kFloat32);
  std::vector<std::int64_t> forward(256);
  std::iota(forward.begin(), forward.end(), 0);
  const std::vector<std::int64_t> backward(forward.rbegin(), forward.rend());
  const Batch up = readAll(*dataset, forward);
  const Batch down = readAll(*dataset, backward);
  for (int i = 0; i < 256; ++i) {
    EXPECT_EQ(up[0].as<float>()[i], static_cast<float>(i) / 255.0F);
    EXPECT_EQ(down[0].as<float>()[i], static_cast<float>(255 - i) / 255.0F);
  }
}

TEST(ArrayDatasetTest, NoSamplesAreFine) {
  const auto dataset =
      makeDataset({{"x", counting<std::uint8_t>({4, 3}), true}, {"y", counting<float>({4})}});
  const Batch batch = readAll(*dataset, {});
  EXPECT_THAT(batch[0].shape(), ElementsAre(0, 3));
  EXPECT_THAT(batch[1].shape(), ElementsAre(0));
}

TEST(ArrayDatasetTest, UsesMemoryAgain) {
  const auto dataset = makeDataset({{"x", counting<float>({100, 16})}});
  std::set<std::byte*> places;
  for (int i = 0; i < 50; ++i) places.insert(readAll(*dataset, {i, 3, i})[0].data());
  EXPECT_EQ(places.size(), 1U);
}

TEST(ArrayDatasetTest, ThreadsReadAtOnce) {
  const auto dataset = makeDataset({{"x", counting<std::int64_t>({1000})}});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&dataset, t] {
      for (std::int64_t i = 0; i < 1000; ++i) {
        const std::int64_t other = (i * 7 + t) % 1000;
        const Batch batch = readAll(*dataset, {i, other});
        EXPECT_THAT(batch[0].as<std::int64_t>(), ElementsAre(i, other));
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(ArrayDatasetTest, SaysWhatDoesNotFit) {
  const auto errorOf = [](std::vector<ArrayField> fields) {
    const auto dataset = ArrayDataset::create("test", std::move(fields));
    EXPECT_EQ(dataset.status().code(), StatusCode::kInvalidArgument);
    return toString(dataset.status());
  };
  EXPECT_THAT(errorOf({}), HasSubstr("has no fields"));
  EXPECT_THAT(errorOf({{"x", counting<float>({0, 3})}}), HasSubstr("field x has no samples"));
  EXPECT_THAT(errorOf({{"x", counting<float>({3})}, {"y", counting<float>({4})}}),
              HasSubstr("field y has 4 samples, field x has 3"));
  EXPECT_THAT(errorOf({{"x", counting<float>({3}), true}}), HasSubstr("field x is float32"));

  Random random(0);
  const auto dataset = makeDataset({{"x", counting<float>({3})}});
  for (const std::int64_t bad : {-1, 3}) {
    const auto batch = dataset->read(std::vector<std::int64_t>{0, bad}, random);
    EXPECT_THAT(toString(batch.status()), HasSubstr("there is no sample " + std::to_string(bad)));
  }
}

}  // namespace
}  // namespace colla
