#include "job/slurm.h"

#include <charconv>

namespace colla::job::slurm {
namespace {

constexpr int kMaxNodes = 1 << 20;

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

}  // namespace

std::vector<int> tasksPerNode(std::string_view list) {
  std::vector<int> tasks;
  do {
    const int count = takeNumber(list);
    int nodes = 1;
    if (take(list, "(x")) {
      nodes = takeNumber(list);
      if (!take(list, ")")) return {};
    }
    if (count == 0 || nodes == 0 || nodes > kMaxNodes - static_cast<int>(tasks.size())) return {};
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
