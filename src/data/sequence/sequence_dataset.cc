#include "data/sequence/sequence_dataset.h"

#include <algorithm>
#include <utility>

#include "colla/array_dataset.h"
#include "data/sequence/letters.h"

namespace colla::data {

void SequenceRows::add(std::span<const std::uint8_t> letters, std::int64_t label) {
  const auto used = letters.first(std::min<std::size_t>(letters.size(), length_));
  letters_.insert(letters_.end(), used.begin(), used.end());
  labels_.push_back(label);
  letters_.resize(labels_.size() * length_, kPadding);
}

void SequenceRows::relabel(std::span<const std::int64_t> classes) {
  for (std::int64_t& label : labels_) label = classes[label];
}

Result<std::shared_ptr<const Dataset>> SequenceRows::dataset(std::string title,
                                                             std::int64_t classes) const {
  COLLA_TRY_ASSIGN(const Array sequences, Array::allocate(DataType::kUInt8, {size(), length_}));
  COLLA_TRY_ASSIGN(const Array labels, Array::allocate(DataType::kInt64, {size()}));
  std::ranges::copy(letters_, sequences.as<std::uint8_t>().begin());
  std::ranges::copy(labels_, labels.as<std::int64_t>().begin());
  COLLA_TRY_ASSIGN(auto dataset, ArrayDataset::create(std::move(title),
                                                      {{"sequence", sequences}, {"label", labels}},
                                                      classes, kLetters));
  return std::shared_ptr<const Dataset>(std::move(dataset));
}

}  // namespace colla::data
