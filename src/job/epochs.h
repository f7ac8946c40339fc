// The epochs of a job, one after the other.
//
// Thread safety: none; all processes of the job make the same calls, in the same order.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "colla/epoch.h"
#include "collective/group_core.h"

namespace colla::job {

class Epochs {
 public:
  // Processes have numbers: workers come first, then servers.
  struct Options {
    int workers = 1;  // Of the job.
    int servers = 0;
    int slices = 1;
    int self = 0;
    std::vector<std::string> names = {};  // Of all processes, for messages.
    // What all groups have in common: `routes`, `timeout` and `algorithm`.
    GroupCore::Options group = {};
  };

  // Forms the first epoch, with all workers of the job.
  static Result<std::unique_ptr<Epochs>> start(Options options, Deadline deadline);

  const Epoch& current() const { return *current_; }
  // Where memory of one epoch waits for the next one.
  const std::shared_ptr<collective::MemoryShelf>& shelf() const { return options_.group.shelf; }

  // As Job says of these two.
  Status check(const EpochPlan& plan) const;
  Status replace(const std::optional<EpochPlan>& plan, std::chrono::milliseconds timeout);

 private:
  explicit Epochs(Options options) : options_(std::move(options)) {}

  GroupCore::Options groupOptions(std::uint32_t id, std::vector<int> members) const;
  Status meetAll(std::chrono::milliseconds timeout);
  Result<EpochPlan> agree(const std::optional<EpochPlan>& plan, std::chrono::milliseconds timeout);
  // Everything of the epoch but its groups, and then its host group.
  Result<std::unique_ptr<Epoch::State>> draft(const EpochPlan& plan, std::uint32_t number) const;
  static Status formHost(Epoch::State& state);

  const Options options_;
  std::shared_ptr<Group> all_;  // All processes of the job, once they have met.
  std::optional<Epoch> current_;
};

}  // namespace colla::job
