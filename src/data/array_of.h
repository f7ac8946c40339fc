// A copy of a vector as an Array, which the workers of a host can keep once (data/shared_pages.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "colla/array.h"

namespace colla::data {

template <Element T>
Result<Array> arrayOf(const std::vector<T>& values) {
  COLLA_TRY_ASSIGN(Array array,
                   Array::allocate(dataTypeOf<T>(), {static_cast<std::int64_t>(values.size())}));
  std::ranges::copy(values, array.as<T>().begin());
  return array;
}

}  // namespace colla::data
