// Gives a slice its own random stream inside libtorch.
//
// While a SliceRandom lives, every random number that libtorch draws on this thread without a
// generator of the caller's own (dropout, rand, normal_ …) comes from a generator that was seeded
// for the slice. Other threads are not affected, so replicas in threads do not disturb each other.
//
// To be destroyed on the thread that made it, in reverse order.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstdint>
#include <optional>

namespace colla::train {

class SliceRandom {
 public:
  explicit SliceRandom(std::uint64_t seed);
  ~SliceRandom();
  SliceRandom(const SliceRandom&) = delete;
  SliceRandom& operator=(const SliceRandom&) = delete;

  // Made at the first draw: most slices of most models never draw.
  const at::Generator& generator();

 private:
  std::uint64_t seed_;
  std::optional<at::Generator> generator_;
  SliceRandom* outer_;
  c10::impl::IncludeDispatchKeyGuard guard_;
};

}  // namespace colla::train
