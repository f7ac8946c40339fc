// A long text of numbered words, cut into samples of one length.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "colla/dataset.h"
#include "colla/status.h"

namespace colla::data {

inline constexpr std::int64_t kDefaultTextLength = 20;

// Sample i holds words [i x length, (i + 1) x length) of `text` (field words, int64) and the word
// after each of them (field next); what is left over at the end is not used. `length` 0:
// kDefaultTextLength. Words are from 0 to `vocabulary` - 1. kInvalidArgument for a text that is
// shorter than one sample.
Result<std::shared_ptr<const Dataset>> textDataset(std::string title,
                                                   std::vector<std::int32_t> text,
                                                   std::int64_t vocabulary, std::int64_t length);

}  // namespace colla::data
