#include "data/read_options.h"

#include <fmt/format.h>

namespace colla::data {
namespace {

// Larger ones are mistakes, and their bytes are to be counted without overflow.
constexpr std::int64_t kMaxSide = 1 << 14;
constexpr std::int64_t kMaxLength = 1 << 24;

template <typename... Values>
Status refused(std::string_view name, fmt::format_string<Values...> format, Values&&... values) {
  return {StatusCode::kInvalidArgument,
          fmt::format("{}: {}", name, fmt::format(format, std::forward<Values>(values)...))};
}

}  // namespace

Status checkOptions(std::string_view name, const ReadOptions& options, const Fulfils& fulfils) {
  const auto [height, width, augment, length, vocabulary] = options;
  if (height != 0 || width != 0) {
    if (!fulfils.images) {
      return refused(name, "has no images to scale to {}x{}", height, width);
    }
    if (height < 1 || width < 1 || height > kMaxSide || width > kMaxSide) {
      return refused(name, "images can't be scaled to {}x{}; sides are from 1 to {}", height, width,
                     kMaxSide);
    }
  }
  if (augment && !fulfils.images) return refused(name, "has no images to crop and flip");
  if (length != 0) {
    if (!fulfils.length) return refused(name, "has no sequences to cut to a length of {}", length);
    if (length < 1 || length > kMaxLength) {
      return refused(name, "sequences can't be cut to a length of {}; it is from 1 to {}", length,
                     kMaxLength);
    }
  }
  if (!vocabulary.empty() && !fulfils.vocabulary) {
    return refused(name, "takes no vocabulary, but {} was given", vocabulary);
  }
  return {};
}

}  // namespace colla::data
