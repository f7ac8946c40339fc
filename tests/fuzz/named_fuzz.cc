// What a rank could report to the coordinator of an exchange, and what that could order.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "named/announcement.h"
#include "named/coordinator.h"
#include "named/fusion.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace colla::named;
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto orders = decodeOrders(bytes); orders.ok()) {
    if (!decodeOrders(encode(*orders)).ok()) std::abort();
  }
  const auto report = decodeReport(bytes);
  if (!report.ok()) return 0;
  if (!decodeReport(encode(*report)).ok()) std::abort();
  // The coordinator refuses what breaks the rules, and decides on the rest.
  Coordinator coordinator({.names = {"rank 0", "rank 1"},
                           .stallWarning = std::chrono::seconds(1),
                           .stallShutdown = std::chrono::seconds(2)});
  for (const int rank : {1, 0}) {
    if (!coordinator.take(rank, report->announcements, {}).ok()) break;
    const auto batches = planFusion(coordinator.decide(), 1 << 20);
    Orders orders;
    orders.batches = batches;
    if (!decodeOrders(encode(orders)).ok()) std::abort();
    static_cast<void>(coordinator.stalls(colla::TimePoint() + std::chrono::seconds(3)));
  }
  return 0;
}
