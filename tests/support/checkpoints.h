// What the checkpoint tests share: a folder of their own, and tensors with memory behind them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/directory.h"
#include "checkpoint/manifest.h"
#include "checkpoint/tensor_view.h"
#include "support/scratch.h"

namespace colla::checkpoint {

inline void writeText(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// Turns one bit of a file.
inline void flipBit(const std::string& path, std::size_t position) {
  std::string text = readText(path);
  ASSERT_LT(position, text.size());
  text[position] = static_cast<char>(text[position] ^ 1);
  writeText(path, text);
}

// Owns what its views show.
class Tensors {
 public:
  template <typename T>
  Tensors& add(const std::string& name, const Shape& shape, const std::vector<T>& values) {
    auto& memory = memory_.emplace_back(values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(memory.data(), values.data(), memory.size());
    views_.push_back({name, dataTypeOf<T>(), shape, memory});
    return *this;
  }
  std::span<const TensorView> views() const { return views_; }

 private:
  std::deque<std::vector<std::byte>> memory_;
  std::vector<TensorView> views_;
};

template <typename T>
std::vector<T> valuesOf(const TensorView& tensor) {
  std::vector<T> values(tensor.bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

// A small training: values follow from the step.
struct Example {
  explicit Example(std::int64_t step, float first = 0.5F) {
    const auto at = static_cast<float>(step);
    manifest.step = step;
    manifest.seed = 7;
    manifest.slices = 4;
    manifest.model = "mlp";
    manifest.optimizer = "adam lr=0.001";
    manifest.strategy = "single";
    parameters.add<float>("fc.weight", {2, 3}, {first, 1, 2, 3, 4, at})
        .add<float>("fc.bias", {2}, {at, -1});
    buffers.add<float>("bn.running_mean", {2}, {at, 0})
        .add<std::int64_t>("bn.num_batches_tracked", {}, {step});
    optimizer.add<float>("fc.bias/exp_avg", {2}, {0, at}).add<std::int64_t>("step", {}, {step});
  }
  Contents contents() const { return {parameters.views(), buffers.views(), optimizer.views()}; }

  Manifest manifest;
  Tensors parameters;
  Tensors buffers;
  Tensors optimizer;
};

class CheckpointTest : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return scratch_.at(name); }
  // Names in a directory, sorted; those that begin with a dot too.
  static std::vector<std::string> namesIn(const std::string& directory) {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
      names.push_back(entry.path().filename());
    }
    std::ranges::sort(names);
    return names;
  }
  static void save(Directory& directory, std::int64_t step) {
    const Example example(step);
    const auto saved = directory.save(example.manifest, example.contents());
    ASSERT_TRUE(saved.ok()) << saved.status();
  }

  const Scratch scratch_;
};

}  // namespace colla::checkpoint
