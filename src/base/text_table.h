// Tables for people: columns as wide as what is in them.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace colla {

using TableRow = std::vector<std::string>;

// The columns `left` stand left, the others (numbers) right. All rows have the same length, the
// first one is the header. Each line ends with a newline.
std::string aligned(const std::vector<TableRow>& rows, const std::set<std::size_t>& left);

}  // namespace colla
