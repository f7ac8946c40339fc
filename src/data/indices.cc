#include "data/indices.h"

#include <fmt/format.h>

namespace colla::data {

Status checkIndices(std::string_view title, std::span<const std::int64_t> indices,
                    std::int64_t size) {
  for (const std::int64_t index : indices) {
    if (index < 0 || index >= size) {
      return {StatusCode::kInvalidArgument,
              fmt::format("data set {}: there is no sample {}; it has {}", title, index, size)};
    }
  }
  return {};
}

}  // namespace colla::data
