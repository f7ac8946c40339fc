// Where the gradients of a table's rows are summed: chosen by the bytes that this moves in a step.
// No bit depends on it. Pure functions, no torch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace colla::train {

enum class TableRoute : std::uint8_t {
  kServers,  // Rows go to servers, which update them, and come back when they are read.
  kRows,     // Workers exchange the rows that have gradients, and all update them.
  kWhole,    // They exchange the whole matrix, and which of its rows have gradients.
};
std::string_view toString(TableRoute route);

// What is known of a table.
struct TableUse {
  std::int64_t rows = 0;
  std::size_t width = 0;     // Floats of a row.
  std::int64_t touched = 0;  // Rows that a step of the busiest worker reads.
};

struct RouteChoice {
  TableRoute route = TableRoute::kServers;
  std::string reason;  // For people.
};

// The route that moves fewest bytes through the busiest process; of equal ones the first.
RouteChoice chooseRoute(const TableUse& use, int workers, int servers);

}  // namespace colla::train
