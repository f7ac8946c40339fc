#include "rendezvous/barrier.h"

#include <fmt/format.h>

#include <chrono>

namespace colla::rendezvous {

// Everyone takes a number; numbers 1..count are the first round, the next ones the second. Each
// puts a key under its round, and waits until there are `count` of them.
Status barrier(Store& store, const std::string& name, int count, Deadline deadline) {
  if (count < 1) return {StatusCode::kInvalidArgument, "a barrier needs a count of at least 1"};
  COLLA_TRY_ASSIGN(const std::int64_t number,
                   store.add(fmt::format("barrier/{}/arrivals", name), 1, deadline));
  const std::string round = fmt::format("barrier/{}/round/{}/", name, (number - 1) / count);
  COLLA_TRY(store.set(fmt::format("{}{}", round, number), "", deadline));
  const auto all = store.waitCount(round, count, deadline);
  if (all.ok() || all.status().code() != StatusCode::kTimeout) return all.status();
  const auto came = store.list(round, Deadline::after(std::chrono::seconds(1)));
  return {StatusCode::kTimeout, fmt::format("barrier {}: only {} of {} came in time", name,
                                            came.ok() ? came->size() : 1, count)};
}

}  // namespace colla::rendezvous
