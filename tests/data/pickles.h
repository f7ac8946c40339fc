// Pickles as Python 2 and numpy wrote CIFAR's batches, put together by hand.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace colla::data {

std::string pickledText(std::string_view text);
// numpy's uint8 array of `rows` x `columns`.
std::string pickledArray(int rows, int columns, std::string_view bytes,
                         std::string_view type = "u1");
std::string pickledList(const std::vector<int>& numbers);
// A dictionary in a file.
std::string pickleOf(const std::vector<std::pair<std::string, std::string>>& items);

}  // namespace colla::data
