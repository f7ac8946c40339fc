#include "train/exchange/table_routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace colla::train {

std::string_view toString(TableRoute route) {
  switch (route) {
    case TableRoute::kServers:
      return "servers";
    case TableRoute::kRows:
      return "allreduce of rows";
    case TableRoute::kWhole:
      return "allreduce of the whole table";
  }
  return "unknown";
}

// With r rows of a worker, n workers and P servers, in one direction after the other:
// a server takes nr/P rows and gives as many, a worker r each, so the busier of them decides; rows
// by allreduce come to each worker from n - 1 others; a whole matrix passes a worker's link
// 2(n - 1)/n times. A row travels with its number.
RouteChoice chooseRoute(const TableUse& use, int workers, int servers) {
  if (use.touched == 0) {
    return {TableRoute::kServers, "the first batch read no row of it"};
  }
  const double n = workers;
  const double rowBytes = 4.0 * static_cast<double>(use.width) + 8;
  const double touched = static_cast<double>(use.touched) * rowBytes;
  const double whole = static_cast<double>(use.rows) * (4.0 * static_cast<double>(use.width) + 4);
  const std::array<double, 3> bytes = {2 * std::max(1.0, n / servers) * touched, (n - 1) * touched,
                                       2 * (n - 1) / n * whole};
  const auto least = std::ranges::min_element(bytes);
  return {static_cast<TableRoute>(least - bytes.begin()),
          fmt::format("a worker's step reads {} of {} rows ({:.3g} %), which makes {:.3g} MB for "
                      "the busiest process by servers, {:.3g} MB as rows by allreduce, {:.3g} MB "
                      "as a whole",
                      use.touched, use.rows,
                      100.0 * static_cast<double>(use.touched) / static_cast<double>(use.rows),
                      bytes[0] / 1e6, bytes[1] / 1e6, bytes[2] / 1e6)};
}

}  // namespace colla::train
