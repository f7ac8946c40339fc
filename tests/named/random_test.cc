// Every kind of operation on every type, submitted in another order by each rank, against plain
// arithmetic.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "collective/convert.h"
#include "named/crew.h"

namespace colla::named {
namespace {

using collective::Convert;
using test::Crew;
using test::Ticket;

struct Spec {
  int number;
  Kind kind;
  Op op;
  std::int64_t rows;  // Of rank 0; where they may differ, others have more.
  std::int64_t columns;
  int root;
  double prescale;
  double postscale;

  std::string name() const { return "tensor " + std::to_string(number); }
  bool ownRows() const { return kind == Kind::kAllgather || kind == Kind::kAlltoall; }
  std::int64_t rowsOf(int rank) const { return ownRows() ? rows + rank * (number % 3) : rows; }
  // How many rows `from` sends to `to`.
  std::int64_t split(int from, int to, int ranks) const {
    std::int64_t left = rowsOf(from);
    for (int r = 0; r < to; ++r) left -= std::min<std::int64_t>(left, (from + r + number) % 3);
    return to == ranks - 1 ? left : std::min<std::int64_t>(left, (from + to + number) % 3);
  }
};

// Small whole numbers, so that sums and products are exact in every type.
double valueOf(const Spec& spec, int rank, std::size_t element, DataType type) {
  const auto mixed = static_cast<int>(element * 5 + rank * 7 + spec.number * 3);
  if (type == DataType::kBool) return mixed % 3 == 0 ? 1 : 0;
  if (type == DataType::kUInt8) return mixed % 4;
  return mixed % 5 - 1;
}

template <typename T>
T stored(double value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value != 0;
  } else {
    return Convert<T>::store(static_cast<decltype(Convert<T>::load(T{}))>(value));
  }
}

template <typename T>
std::vector<T> inputOf(const Spec& spec, int rank) {
  std::vector<T> values;
  for (std::int64_t i = 0; i < spec.rowsOf(rank) * spec.columns; ++i) {
    values.push_back(stored<T>(valueOf(spec, rank, static_cast<std::size_t>(i), dataTypeOf<T>())));
  }
  return values;
}

// As the header says: before, reduce, after; integers drop fractions each time.
template <typename T>
T reduced(const Spec& spec, int ranks, std::size_t element) {
  const bool whole = std::is_integral_v<T>;
  const auto dropped = [&](double value) { return whole ? std::trunc(value) : value; };
  double result = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const double value = dropped(valueOf(spec, rank, element, dataTypeOf<T>()) * spec.prescale);
    if (rank == 0) {
      result = value;
    } else if (spec.op == Op::kSum || spec.op == Op::kAverage) {
      result += value;
    } else if (spec.op == Op::kProduct) {
      result *= value;
    } else {
      result = spec.op == Op::kMin ? std::min(result, value) : std::max(result, value);
    }
  }
  if (spec.op == Op::kAverage) {
    if constexpr (std::is_integral_v<T>) {
      result = std::trunc(result / ranks);
    } else {
      using Number = decltype(Convert<T>::load(T{}));
      result = static_cast<double>(static_cast<Number>(result) / static_cast<Number>(ranks));
      result = static_cast<double>(Convert<T>::load(stored<T>(result)));
    }
  }
  return stored<T>(dropped(result * spec.postscale));
}

template <typename T>
std::vector<T> expected(const Spec& spec, int ranks, int rank) {
  const auto columns = static_cast<std::size_t>(spec.columns);
  std::vector<T> result;
  const auto add = [&](int from, std::int64_t row, std::int64_t count) {
    const auto input = inputOf<T>(spec, from);
    const auto first = input.begin() + row * spec.columns;
    result.insert(result.end(), first, first + count * spec.columns);
  };
  if (spec.kind == Kind::kAllreduce) {
    for (std::size_t i = 0; i < spec.rows * columns; ++i) {
      result.push_back(reduced<T>(spec, ranks, i));
    }
  } else if (spec.kind == Kind::kReducescatter) {
    const std::int64_t least = spec.rows / ranks, more = spec.rows % ranks;
    const std::int64_t begin = rank * least + std::min<std::int64_t>(rank, more);
    const std::int64_t end = begin + least + (rank < more ? 1 : 0);
    for (auto i = begin * spec.columns; i < end * spec.columns; ++i) {
      result.push_back(reduced<T>(spec, ranks, static_cast<std::size_t>(i)));
    }
  } else if (spec.kind == Kind::kBroadcast) {
    add(spec.root, 0, spec.rows);
  } else if (spec.kind == Kind::kAllgather) {
    for (int from = 0; from < ranks; ++from) add(from, 0, spec.rowsOf(from));
  } else if (spec.kind == Kind::kAlltoall) {
    for (int from = 0; from < ranks; ++from) {
      std::int64_t row = 0;
      for (int to = 0; to < rank; ++to) row += spec.split(from, to, ranks);
      add(from, row, spec.split(from, rank, ranks));
    }
  }
  return result;
}

Spec randomSpec(std::mt19937& random, int number, int ranks, DataType type) {
  const auto below = [&](int limit) { return static_cast<int>(random() % limit); };
  const Kind kinds[] = {Kind::kAllreduce, Kind::kAllreduce,     Kind::kAllgather, Kind::kBroadcast,
                        Kind::kAlltoall,  Kind::kReducescatter, Kind::kBarrier};
  Spec spec{.number = number,
            .kind = kinds[below(7)],
            .op = static_cast<Op>(below(5)),
            .rows = below(9),
            .columns = below(10) == 0 ? 0 : 1 + below(40),
            .root = below(ranks),
            .prescale = below(3) == 0 ? 2.0 : 1.0,
            .postscale = below(3) == 0 ? 0.5 : 1};
  if (spec.op == Op::kProduct) spec.prescale = 1;  // Stays exact.
  if (type == DataType::kBool) {
    spec.prescale = spec.postscale = 1;
    if (spec.op == Op::kAverage) spec.op = Op::kSum;
  }
  return spec;
}

template <typename T>
class RandomTest : public ::testing::Test {};
using Types = ::testing::Types<float, double, BFloat16, Float16, std::int8_t, std::int16_t,
                               std::int32_t, std::int64_t, std::uint8_t, bool>;
TYPED_TEST_SUITE(RandomTest, Types);

// vector<bool> has no memory to point to.
template <typename T>
using Stored = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;

template <typename T>
std::vector<std::byte> bytesOf(const std::vector<T>& values) {
  std::vector<std::byte> bytes;
  for (const T value : values) {
    const auto one = std::bit_cast<std::array<std::byte, sizeof(T)>>(value);
    bytes.insert(bytes.end(), one.begin(), one.end());
  }
  return bytes;
}

TYPED_TEST(RandomTest, EveryOrderGivesTheSame) {
  using T = TypeParam;
  constexpr int kOperations = 60;
  for (int ranks = 1; ranks <= 4; ++ranks) {
    std::mt19937 random(ranks * 100 + static_cast<int>(dataTypeOf<T>()));
    std::vector<Spec> specs;
    for (int i = 0; i < kOperations; ++i) {
      specs.push_back(randomSpec(random, i, ranks, dataTypeOf<T>()));
    }
    Crew crew(ranks, {.fusionBytes = 2000});
    crew.each([&](int rank) {
      std::vector<Spec> mine = specs;
      std::shuffle(mine.begin(), mine.end(), std::mt19937(rank));
      std::vector<Ticket> tickets;
      for (const Spec& spec : mine) {
        Request request{.name = spec.name(), .kind = spec.kind, .type = dataTypeOf<T>()};
        request.shape = {spec.rowsOf(rank), spec.columns};
        request.op = spec.op;
        request.prescale = spec.prescale;
        request.postscale = spec.postscale;
        request.root = spec.root;
        if (spec.kind == Kind::kAlltoall) {
          for (int to = 0; to < ranks; ++to) {
            request.splits.push_back(spec.split(rank, to, ranks));
          }
        }
        const auto bytes = bytesOf(inputOf<T>(spec, rank));
        std::vector<Stored<T>> input(bytes.size() / sizeof(T));
        if (!bytes.empty()) std::memcpy(input.data(), bytes.data(), bytes.size());
        if (spec.kind == Kind::kBarrier) {
          request.shape.clear();
          input.clear();
        }
        auto [whole, ticket] = Ticket::of(std::move(request), input);
        const Status status = crew[rank].submit(std::move(whole));
        ASSERT_TRUE(status.ok()) << status;
        tickets.push_back(ticket);
      }
      for (std::size_t i = 0; i < mine.size(); ++i) {
        const Spec& spec = mine[i];
        SCOPED_TRACE(std::string(toString(spec.kind)) + " " + std::string(toString(spec.op)) +
                     " of " + spec.name() + " on rank " + std::to_string(rank) + " of " +
                     std::to_string(ranks));
        const Status status = tickets[i].wait();
        ASSERT_TRUE(status.ok()) << status;
        ASSERT_EQ(tickets[i].bytes(), bytesOf(expected<T>(spec, ranks, rank)));
        ASSERT_EQ(tickets[i].times(), 1);
        if (spec.kind != Kind::kAlltoall) continue;
        std::vector<std::int64_t> received;
        for (int from = 0; from < ranks; ++from) {
          received.push_back(spec.split(from, rank, ranks));
        }
        ASSERT_EQ(tickets[i].received(), received);
        ASSERT_EQ(tickets[i].shape().front(),
                  std::accumulate(received.begin(), received.end(), std::int64_t{0}));
      }
    });
  }
}

}  // namespace
}  // namespace colla::named
