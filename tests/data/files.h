// IDX files that tests make.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace colla::data {

// A header of unsigned bytes, then `elements`.
std::string idx(std::initializer_list<std::uint32_t> shape, std::string_view elements);
std::string gzip(std::string_view plain);

}  // namespace colla::data
