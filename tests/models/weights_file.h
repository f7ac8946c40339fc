// A model's weights as a file, as `colla export` writes them.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "checkpoint/tensor_file.h"
#include "colla/model.h"
#include "support/scratch.h"
#include "train/tensors.h"

namespace colla::models {

// All of the module's tensors, in a file in `folder`.
inline std::string saveWeights(const Scratch& folder, Model& model) {
  std::vector<checkpoint::TensorView> views;
  const auto add = [&](const auto& tensors) {
    for (const auto& item : tensors) {
      const Buffer memory = train::memoryOf(item.value(), item.key());
      views.push_back({item.key(), memory.type(), item.value().sizes().vec(), memory.bytes()});
    }
  };
  add(model.module().named_parameters());
  add(model.module().named_buffers());
  EXPECT_TRUE(checkpoint::writeTensorFile(folder.path(), "w.safetensors", views).ok());
  return folder.at("w.safetensors");
}

}  // namespace colla::models
