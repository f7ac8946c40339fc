// A checkpoint opened for reading: every file was there, with the size and CRC32C that the manifest
// says. Movable; views stay valid as long as it lives, even if the checkpoint is removed meanwhile.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "checkpoint/manifest.h"
#include "checkpoint/tensor_file.h"
#include "checkpoint/tensor_view.h"
#include "colla/status.h"

namespace colla::checkpoint {

inline constexpr char kModelFile[] = "model.safetensors";
inline constexpr char kOptimizerFile[] = "optimizer.safetensors";
inline constexpr char kManifestFile[] = "manifest.json";

// Of the checkpoint in the directory `path`, which is that of one step: the files that it lists are
// not looked at.
Result<Manifest> readManifest(const std::string& path);

class Loaded {
 public:
  // `path` is the directory of one step.
  static Result<Loaded> open(const std::string& path);

  const std::string& path() const { return path_; }
  const Manifest& manifest() const { return manifest_; }
  // Parameters and buffers, by name; `isBuffer` tells which.
  std::span<const TensorView> model() const { return model_.tensors(); }
  bool isBuffer(std::string_view name) const;
  // Such as "fc.weight/exp_avg", by name.
  std::span<const TensorView> optimizer() const { return optimizer_.tensors(); }

 private:
  Loaded(std::string path, Manifest manifest, TensorFile model, TensorFile optimizer)
      : path_(std::move(path)),
        manifest_(std::move(manifest)),
        model_(std::move(model)),
        optimizer_(std::move(optimizer)) {}

  std::string path_;
  Manifest manifest_;  // Its buffers are sorted.
  TensorFile model_;
  TensorFile optimizer_;
};

}  // namespace colla::checkpoint
