// Sequences of letters, all cut or padded to one length, with a class each.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "colla/dataset.h"
#include "colla/status.h"

namespace colla::data {

// As DeepFam has it.
inline constexpr std::int64_t kDefaultSequenceLength = 1000;

// Grows by a sequence at a time, each cut or padded as it comes.
class SequenceRows {
 public:
  // Rows of `length` letters; 0: kDefaultSequenceLength.
  explicit SequenceRows(std::int64_t length)
      : length_(length > 0 ? length : kDefaultSequenceLength) {}

  std::int64_t length() const { return length_; }
  std::int64_t size() const { return static_cast<std::int64_t>(labels_.size()); }
  // `letters` are numbers as in sequence/letters.h.
  void add(std::span<const std::uint8_t> letters, std::int64_t label);
  // Replaces each label by what stands in its place in `classes`.
  void relabel(std::span<const std::int64_t> classes);

  // Fields sequence (uint8) and label; kInvalidArgument where there are no rows.
  Result<std::shared_ptr<const Dataset>> dataset(std::string title, std::int64_t classes) const;

 private:
  std::int64_t length_;
  std::vector<std::uint8_t> letters_;
  std::vector<std::int64_t> labels_;
};

}  // namespace colla::data
