// Random numbers that are the same on every machine, whatever the compiler and its library.
//
// A job has one seed. Everything random in it comes from a stream of its own, named by (seed, step,
// slice): whoever runs a slice draws the same numbers, and a resumed job goes on as if it had
// never stopped.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace colla {

// One round of SplitMix64: a bijection in which each bit of the result depends on each of `value`.
constexpr std::uint64_t mixBits(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

// The seed of a stream: mix(mix(mix(seed) ^ step) ^ slice). Different slices of one step never get
// the same. Also what libtorch's generator is seeded with.
constexpr std::uint64_t streamSeed(std::uint64_t seed, std::uint64_t step, std::uint64_t slice) {
  return mixBits(mixBits(mixBits(seed) ^ step) ^ slice);
}

// In place of a slice: the stream that gives epoch `step` its order.
inline constexpr std::uint64_t kOrderStream = ~std::uint64_t{0};

// A stream: xoshiro256++ (Blackman and Vigna), its state filled by SplitMix64 from `seed`. Cheap to
// make and to copy; not thread safe.
class Random {
 public:
  explicit constexpr Random(std::uint64_t seed) {
    for (auto& word : state_) {
      word = mixBits(seed);
      seed += 0x9e3779b97f4a7c15;
    }
  }
  constexpr Random(std::uint64_t seed, std::uint64_t step, std::uint64_t slice)
      : Random(streamSeed(seed, step, slice)) {}

  // 64 random bits.
  constexpr std::uint64_t next() {
    auto& [a, b, c, d] = state_;
    const std::uint64_t result = std::rotl(a + d, 23) + a;
    const std::uint64_t shifted = b << 17;
    c ^= a;
    d ^= b;
    b ^= c;
    a ^= d;
    c ^= shifted;
    d = std::rotl(d, 45);
    return result;
  }

  // Each of 0 … bound - 1 equally often; `bound` is at least 1.
  constexpr std::uint64_t below(std::uint64_t bound) {
    std::uint64_t value = next();
    // The 2^64 mod bound smallest numbers would come once too often. They are below `bound`, so
    // hardly any draw has to find out how many they are.
    if (value < bound) {
      const std::uint64_t excess = (0 - bound) % bound;
      while (value < excess) value = next();
    }
    return value % bound;
  }

  // In [0, 1), a multiple of 2^-24.
  constexpr float uniform() { return static_cast<float>(next() >> 40) * 0x1p-24F; }

 private:
  std::array<std::uint64_t, 4> state_{};
};

}  // namespace colla
