// Tables for people: columns as wide as what is in them.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace colla::bench {

using Row = std::vector<std::string>;

// The columns `names` stand left, numbers right. All rows have the same length, the first one is
// the header. Each line ends with a newline.
std::string aligned(const std::vector<Row>& rows, const std::set<std::size_t>& names);

}  // namespace colla::bench
