// What the first server tells all servers to do. Each carries it out as soon as it comes, so all of
// them make the same updates in the same order, and a step is the same everywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "colla/status.h"
#include "ps/stop.h"

namespace colla::ps {

// Numbers of one update.
struct Terms {
  std::vector<std::uint8_t> present = {};  // By entry: whether somebody brought a value for it.
  double factor = 1;                       // Of the learning rate: schedule and plateaus.
  double gradScale = 1;                    // What the sum of gradients is multiplied by.
  double meanScale = 1;                    // The same for means.
  std::size_t bytes = 0;  // Of the gradients on one server: how much work it is. Each finds out.
};

struct Order {
  enum class Kind : std::uint8_t {
    kUpdate,    // One update, of the gradients of `take`.
    kSum,       // Its first half, for clipping: sums the gradients and reports the sums' squares.
    kApply,     // Its second half: applies what was summed.
    kRelease,   // No update.
    kSnapshot,  // A copy of everything, for a checkpoint.
    kFail,      // The job can't go on.
  };
  // A worker gets the parameters as they are then, and learns what became of its gradients.
  struct Release {
    int worker = 0;
    std::int64_t late = 0;    // Updates that were made between its parameters and its gradients.
    std::int64_t behind = 0;  // Steps that the slowest worker was behind it.
    bool dropped = false;     // Its gradients came too late to count.
  };

  Kind kind = Kind::kRelease;
  std::vector<int> take = {};  // Workers.
  std::vector<Release> release = {};
  Terms terms = {};
  // As they are once the order has been carried out.
  std::int64_t step = 0;     // Updates made.
  std::int64_t samples = 0;  // Of all gradients taken.
  double scale = 1;          // What clipping multiplied the last update's gradients by.
  Stop stop = Stop::kNo;     // The strongest of all workers' reasons.
  std::string reason = {};   // For people; of a kFail what those who wait are told.
};
std::vector<std::byte> encode(const Order& order);
// kInvalidArgument for what can't be, numbers of workers and entries among it.
Result<Order> decodeOrder(std::span<const std::byte> bytes, int workers, std::size_t entries);

}  // namespace colla::ps
