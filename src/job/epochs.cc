// How processes replace an epoch: they meet in a group of all processes of the job. That is the
// first epoch's world or, in a job with servers, one that they form when they first need it. There
// they compare their plans, hand the plan to those that have none, form the groups of the new epoch
// as subgroups, and wait for each other. Nobody connects anew, and a process that fails, or is
// lost, is known to all of them.
#include "job/epochs.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/invalid.h"
#include "colla/collectives.h"

namespace colla {

struct Epoch::State {
  std::uint32_t number = 0;
  int rank = kNoRank;
  int servers = 0;
  int recorder = 0;
  std::vector<int> processes;
  SliceMap slices;
  Topology topology;
  std::shared_ptr<Group> world = nullptr;
  std::unique_ptr<Group> host = nullptr;  // Null where it is `world`.
};

std::uint32_t Epoch::number() const { return state_->number; }
int Epoch::rank() const { return state_->rank; }
int Epoch::workers() const { return static_cast<int>(state_->processes.size()); }
int Epoch::servers() const { return state_->servers; }
std::span<const int> Epoch::processes() const { return state_->processes; }
const SliceMap& Epoch::slices() const { return state_->slices; }
SliceRange Epoch::mine() const { return takesPart() ? slices().range(rank()) : SliceRange{}; }
const Topology& Epoch::topology() const { return state_->topology; }
int Epoch::recorder() const { return state_->recorder; }

Group& Epoch::world() const {
  COLLA_CHECK(state_->world != nullptr);  // Idle workers and servers have none.
  return *state_->world;
}

Group& Epoch::host() const { return state_->host == nullptr ? world() : *state_->host; }

namespace job {
namespace {

// The numbers of the first world and of the group of all processes; subgroups have hashes.
constexpr std::uint32_t kWorldId = 1;
constexpr std::uint32_t kAllId = 2;

std::vector<int> upTo(int count) {
  std::vector<int> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

// A plan in numbers, to send.
std::vector<std::int64_t> numbersOf(const EpochPlan& plan) {
  std::vector<std::int64_t> numbers = {plan.recorder};
  numbers.insert(numbers.end(), plan.workers.begin(), plan.workers.end());
  return numbers;
}

EpochPlan planOf(std::span<const std::int64_t> numbers) {
  EpochPlan plan{.workers = {}, .recorder = static_cast<int>(numbers.front())};
  for (const std::int64_t worker : numbers.subspan(1)) {
    plan.workers.push_back(static_cast<int>(worker));
  }
  return plan;
}

// What a process says of its plan before the plan itself is sent.
struct Word {
  static constexpr std::int64_t kNone = 0, kRefused = -1;
  std::int64_t length = kNone;  // Of the plan in numbers.
  std::int64_t hash = 0;

  friend bool operator==(const Word&, const Word&) = default;
};

}  // namespace

GroupCore::Options Epochs::groupOptions(std::uint32_t id, std::vector<int> members) const {
  GroupCore::Options group = options_.group;
  group.id = id;
  group.transport = group.routes->between(members);
  group.rank = options_.self;
  for (const int member : members) group.names.push_back(options_.names[member]);
  group.members = std::move(members);
  return group;
}

Result<std::unique_ptr<Epoch::State>> Epochs::draft(const EpochPlan& plan,
                                                    std::uint32_t number) const {
  const int workers = static_cast<int>(plan.workers.size());
  COLLA_TRY_ASSIGN(SliceMap slices, SliceMap::even(options_.slices, workers));
  const auto place = std::ranges::find(plan.workers, options_.self);
  const int rank =
      place == plan.workers.end() ? Epoch::kNoRank : static_cast<int>(place - plan.workers.begin());
  return std::unique_ptr<Epoch::State>(
      new Epoch::State{.number = number,
                       .rank = rank,
                       .servers = options_.servers,
                       .recorder = plan.recorder,
                       .processes = plan.workers,
                       .slices = std::move(slices),
                       .topology = options_.group.routes->topologyOf(plan.workers)});
}

Status Epochs::formHost(Epoch::State& state) {
  if (state.world == nullptr || state.topology.hosts() == 1) return {};
  const int host = state.topology.hostOf(state.rank);
  COLLA_TRY_ASSIGN(state.host, state.world->subgroup(state.topology.ranksOn(host)));
  return {};
}

Result<std::unique_ptr<Epochs>> Epochs::start(Options options, Deadline deadline) {
  options.group.ids = std::make_shared<GroupIds>();
  options.group.shelf = std::make_shared<collective::MemoryShelf>();
  std::unique_ptr<Epochs> epochs(new Epochs(std::move(options)));
  const std::vector<int> workers = upTo(epochs->options_.workers);
  COLLA_TRY_ASSIGN(auto state, epochs->draft({.workers = workers}, 0));
  if (state->rank != Epoch::kNoRank) {
    COLLA_TRY_ASSIGN(auto core,
                     GroupCore::create(epochs->groupOptions(kWorldId, workers), deadline));
    state->world = std::make_shared<Group>(std::move(core));
  }
  COLLA_TRY(formHost(*state));
  epochs->current_ = Epoch(std::move(state));
  return epochs;
}

Status Epochs::meetAll(std::chrono::milliseconds timeout) {
  if (all_ != nullptr) return {};
  if (options_.servers == 0) {
    all_ = current_->state_->world;
    return {};
  }
  const Deadline deadline = options_.group.deadlineFor(timeout);
  COLLA_TRY_ASSIGN(
      auto core,
      GroupCore::create(groupOptions(kAllId, upTo(options_.workers + options_.servers)), deadline));
  all_ = std::make_shared<Group>(std::move(core));
  return {};
}

Status Epochs::check(const EpochPlan& plan) const {
  const int count = static_cast<int>(plan.workers.size());
  if (count == 0) return invalid("an epoch has at least one worker");
  if (count > options_.slices) {
    return invalid("{} workers can't share {} slices: a worker runs at least one", count,
                   options_.slices);
  }
  for (const int worker : plan.workers) {
    if (worker < 0 || worker >= options_.workers || std::ranges::count(plan.workers, worker) != 1) {
      return invalid("worker {} is not one of 0 to {}, or is named twice", worker,
                     options_.workers - 1);
    }
  }
  if (plan.recorder < 0 || plan.recorder >= count) {
    return invalid("the recorder, rank {}, is not one of the epoch's ranks 0 to {}", plan.recorder,
                   count - 1);
  }
  return {};
}

// All processes come to the same verdict, so that none of them leaves with an epoch of its own.
Result<EpochPlan> Epochs::agree(const std::optional<EpochPlan>& plan,
                                std::chrono::milliseconds timeout) {
  const Status refusal = plan ? check(*plan) : Status();
  std::vector<std::int64_t> numbers = plan ? numbersOf(*plan) : std::vector<std::int64_t>();
  Word own;
  if (!refusal.ok()) {
    own.length = Word::kRefused;
  } else if (plan) {
    own = {static_cast<std::int64_t>(numbers.size()), crc32c(std::as_bytes(std::span(numbers)))};
  }
  std::vector<std::int64_t> words(2 * all_->size());
  COLLA_TRY(allgather(*all_, std::vector<std::int64_t>{own.length, own.hash}, words, {timeout}));
  const auto wordOf = [&](int process) { return Word{words[2 * process], words[2 * process + 1]}; };

  COLLA_TRY(refusal);
  int root = -1, learners = 0;
  for (int process = 0; process < all_->size(); ++process) {
    const Word word = wordOf(process);
    if (word.length == Word::kRefused) {
      return invalid("{} has no valid plan for the next epoch", options_.names[process]);
    }
    if (word == Word()) {
      ++learners;
      continue;
    }
    if (root < 0) root = process;
    if (word != wordOf(root)) {
      return {StatusCode::kMismatch,
              fmt::format("{} and {} have different plans for the next epoch", options_.names[root],
                          options_.names[process])};
    }
  }
  if (root < 0) return invalid("no process has a plan for the next epoch");
  if (learners == 0) return *plan;
  numbers.resize(wordOf(root).length);
  COLLA_TRY(broadcast(*all_, numbers, root, {timeout}));
  return planOf(numbers);
}

Status Epochs::replace(const std::optional<EpochPlan>& plan, std::chrono::milliseconds timeout) {
  COLLA_TRY(meetAll(timeout));
  collective::MemoryShelf& shelf = *options_.group.shelf;
  auto memory = shelf.takeResting();
  COLLA_TRY_ASSIGN(const EpochPlan agreed, agree(plan, timeout));
  shelf.stock(std::move(memory));  // All processes have met: nobody reads it any more.
  const auto form = [&]() -> Result<Epoch> {
    COLLA_TRY_ASSIGN(auto state, draft(agreed, current_->number() + 1));
    if (state->rank != Epoch::kNoRank) {
      COLLA_TRY_ASSIGN(state->world, all_->subgroup(agreed.workers));
    }
    COLLA_TRY(formHost(*state));
    return Epoch(std::move(state));
  };
  auto next = form();
  // The others are on their way to the barrier.
  if (!next.ok()) return all_->core().giveUp(next.status());
  COLLA_TRY(barrier(*all_, {timeout}));
  current_ = *std::move(next);
  return {};
}

}  // namespace job
}  // namespace colla
