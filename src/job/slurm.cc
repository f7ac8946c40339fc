#include "job/slurm.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace colla::job::slurm {
namespace {

constexpr std::size_t kMaxNodes = 1 << 20;
constexpr std::size_t kMaxNames = 1 << 16;
constexpr std::size_t kMaxDigits = 9;

// Takes a positive number from the front of `rest`; 0 if there is none.
int takeNumber(std::string_view& rest) {
  int value = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (error != std::errc() || value < 0) return 0;
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  return value;
}

bool take(std::string_view& rest, std::string_view expected) {
  if (!rest.starts_with(expected)) return false;
  rest.remove_prefix(expected.size());
  return true;
}

// "07-09,12" as {07, 08, 09, 12}; empty if it is no such range.
std::vector<std::string> numbersIn(std::string_view ranges) {
  std::vector<std::string> numbers;
  while (!ranges.empty()) {
    const std::string_view range = ranges.substr(0, ranges.find(','));
    ranges.remove_prefix(std::min(range.size() + 1, ranges.size()));
    std::string_view rest = range;
    const auto digits = range.find_first_not_of("0123456789");
    const std::size_t width = digits == std::string_view::npos ? range.size() : digits;
    const int first = takeNumber(rest);
    const int last = take(rest, "-") ? takeNumber(rest) : first;
    if (width == 0 || width > kMaxDigits || !rest.empty() || last < first) return {};
    if (static_cast<std::size_t>(last - first) >= kMaxNames - numbers.size()) return {};
    for (int number = first; number <= last; ++number) {
      numbers.push_back(fmt::format("{:0{}}", number, width));
    }
  }
  return numbers;
}

// "node[1-2]x[1-2]" as {node1x1, node1x2, node2x1, node2x2}.
std::vector<std::string> namesOf(std::string_view word) {
  std::vector<std::string> names = {""};
  while (!word.empty()) {
    const auto open = word.find('[');
    for (std::string& name : names) name += word.substr(0, open);
    if (open == std::string_view::npos) return names;
    const auto close = word.find(']', open);
    if (close == std::string_view::npos) return {};
    const auto numbers = numbersIn(word.substr(open + 1, close - open - 1));
    std::vector<std::string> longer;
    if (numbers.size() * names.size() > kMaxNames) return {};
    for (const std::string& name : names) {
      for (const std::string& number : numbers) longer.push_back(name + number);
    }
    names = std::move(longer);
    word.remove_prefix(close + 1);
  }
  return names;
}

}  // namespace

std::vector<std::string> nodeNames(std::string_view list) {
  std::vector<std::string> names;
  while (!list.empty()) {
    std::size_t end = 0;
    for (bool inside = false; end < list.size() && (inside || list[end] != ','); ++end) {
      inside = list[end] == '[' || (inside && list[end] != ']');
    }
    const auto some = namesOf(list.substr(0, end));
    if (some.empty() || some.front().empty()) return {};
    names.insert(names.end(), some.begin(), some.end());
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return names;
}

std::vector<int> tasksPerNode(std::string_view list) {
  std::vector<int> tasks;
  do {
    const int count = takeNumber(list);
    int nodes = 1;
    if (take(list, "(x")) {
      nodes = takeNumber(list);
      if (!take(list, ")")) return {};
    }
    if (count == 0 || nodes == 0 || static_cast<std::size_t>(nodes) > kMaxNodes - tasks.size())
      return {};
    tasks.insert(tasks.end(), static_cast<std::size_t>(nodes), count);
  } while (take(list, ","));
  if (!list.empty()) return {};
  return tasks;
}

std::string firstNode(std::string_view list) {
  std::string name;
  while (!list.empty() && list.front() != ',') {
    if (list.front() != '[') {
      name += list.front();
      list.remove_prefix(1);
      continue;
    }
    const auto close = list.find(']');
    if (close == std::string_view::npos) return {};
    const auto inside = list.substr(1, close - 1);
    name += inside.substr(0, inside.find_first_of(",-"));
    list.remove_prefix(close + 1);
  }
  return name;
}

}  // namespace colla::job::slurm
