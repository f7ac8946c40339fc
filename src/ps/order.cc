#include "ps/order.h"

#include <algorithm>

#include "base/bytes.h"

namespace colla::ps {

std::vector<std::byte> encode(const Order& order) {
  ByteWriter writer;
  writer.number(order.kind);
  writer.list(std::span<const int>(order.take));
  writer.number(static_cast<std::uint64_t>(order.release.size()));
  for (const Order::Release& release : order.release) {
    writer.number(release.worker);
    writer.number(release.late);
    writer.number(release.behind);
    writer.number(release.dropped);
  }
  writer.list(std::span<const std::uint8_t>(order.terms.present));
  writer.number(order.terms.factor);
  writer.number(order.terms.gradScale);
  writer.number(order.terms.meanScale);
  writer.number(order.step);
  writer.number(order.samples);
  writer.number(order.scale);
  writer.number(static_cast<std::uint8_t>(order.stop));
  writer.text(order.reason);
  return writer.take();
}

Result<Order> decodeOrder(std::span<const std::byte> bytes, int workers, std::size_t entries) {
  ByteReader reader(bytes);
  Order order;
  order.kind = reader.number<Order::Kind>();
  order.take = reader.list<int>();
  const auto releases = reader.number<std::uint64_t>();
  for (std::uint64_t i = 0; i < releases && reader.ok(); ++i) {
    Order::Release& release = order.release.emplace_back();
    release.worker = reader.number<int>();
    release.late = reader.number<std::int64_t>();
    release.behind = reader.number<std::int64_t>();
    release.dropped = reader.number<std::uint8_t>() != 0;
  }
  order.terms.present = reader.list<std::uint8_t>();
  order.terms.factor = reader.number<double>();
  order.terms.gradScale = reader.number<double>();
  order.terms.meanScale = reader.number<double>();
  order.step = reader.number<std::int64_t>();
  order.samples = reader.number<std::int64_t>();
  order.scale = reader.number<double>();
  order.stop = stopOf(reader.number<std::uint8_t>());
  order.reason = reader.text();
  const auto isWorker = [&](int worker) { return worker >= 0 && worker < workers; };
  const bool good = reader.done() && order.kind <= Order::Kind::kFail &&
                    std::ranges::all_of(order.take, isWorker) &&
                    std::ranges::all_of(order.release, isWorker, &Order::Release::worker) &&
                    (order.take.empty() || order.terms.present.size() == entries);
  if (!good) return {StatusCode::kInvalidArgument, "a damaged order"};
  return order;
}

}  // namespace colla::ps
