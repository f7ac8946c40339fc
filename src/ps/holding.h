// What a server holds: its part of the model that the workers declared, and a copy of it for
// checkpoints. It outlives the workers that declared it: the next epoch's can go on with it.
//
// Not thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "colla/status.h"
#include "ps/declaration.h"
#include "ps/layout.h"
#include "ps/shard.h"
#include "ps/team.h"
#include "ps/wire.h"

namespace colla::ps {

class Holding {
 public:
  struct Place {
    int server = 0;  // Which of the servers this is.
    int servers = 1;
    int workers = 1;  // Of this epoch.
    int threads = 1;
    std::size_t worthSharing = Team::kWorthSharing;
  };

  // With all values 0. kInvalidArgument for what is wrong with the declaration.
  static Result<std::unique_ptr<Holding>> make(Declaration declaration, const Place& place);

  // The same model, optimizer, policy and number of slices, for different workers: keeps
  // parameters, the optimizer's slots and the steps. False, and nothing changed, if it is a
  // different one.
  Result<bool> redeclare(const Declaration& declaration, const Place& place);

  const Declaration& declaration() const { return declaration_; }
  const Layout& layout() const { return layout_; }
  const PushPlan& pushPlan() const { return *plan_; }
  Team& team() { return team_; }
  Shard& shard() { return shard_; }

  // Before the training: a block or rows of a partition, or one of their slots.
  Status fill(const Ask& ask, std::span<const std::byte> payload);
  // Rows of table `ask.number`, whose numbers begin `numbers`: their values go to `out`, which has
  // room for them.
  Status readRows(const Ask& ask, std::span<const std::byte> numbers, std::span<std::byte> out);

  // Copies everything, as of `step`.
  void takeSnapshot(std::int64_t step);
  std::optional<std::int64_t> snapshotStep() const { return snapshot_.step; }
  // A part of the copy, as kFetch, kFetchRows and kFetchSteps ask.
  Result<std::vector<std::byte>> readSnapshot(const Ask& ask) const;

  // What goes on with the next epoch.
  std::int64_t step = 0;  // Updates made.
  Statistics statistics = {};

 private:
  struct Snapshot {
    std::optional<std::int64_t> step;
    std::vector<std::int64_t> steps;
    // By block and by partition: parameters, then each slot.
    std::map<int, std::vector<std::vector<std::byte>>> blocks;
    std::map<int, std::vector<std::vector<std::byte>>> partitions;
  };

  Holding(Declaration declaration, Layout layout, std::vector<optim::UpdateRule> rules,
          PushPlan plan, const Place& place);
  static Result<PushPlan> planOf(const Declaration& declaration, const Place& place);
  std::size_t rowBytes(int partition) const;

  Declaration declaration_;
  const Layout layout_;
  std::optional<PushPlan> plan_;  // Always there; each epoch has its own.
  Team team_;
  Shard shard_;
  Snapshot snapshot_;
};

}  // namespace colla::ps
