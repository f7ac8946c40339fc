// A .safetensors file, mapped and understood; also one that somebody else wrote.
//
// Movable; views stay valid while the object that came from open() or a move of it lives. The
// bytes of a tensor need not be aligned to its elements in files that are not ours.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/file.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/tensor_view.h"
#include "colla/status.h"

namespace colla::checkpoint {

class TensorFile {
 public:
  static Result<TensorFile> open(const std::string& path);

  const std::string& path() const { return path_; }
  std::size_t bytes() const { return file_.bytes().size(); }
  // By name.
  std::span<const TensorView> tensors() const { return tensors_; }

 private:
  TensorFile(std::string path, MappedFile file) : path_(std::move(path)), file_(std::move(file)) {}

  std::string path_;
  MappedFile file_;
  std::vector<TensorView> tensors_;
};

// Makes the file DIRECTORY/NAME, and returns once it is on the disk.
Result<FileEntry> writeTensorFile(const std::string& directory, const std::string& name,
                                  std::span<const TensorView> tensors);

}  // namespace colla::checkpoint
