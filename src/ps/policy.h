// When gradients are taken, and when a worker gets the next parameters: one object for each way in
// which servers can be consistent.
//
// Pure: what happened and the time are passed in, decisions come out. One server (the first) asks
// it; all servers carry its decisions out, in their order. Not thread safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "colla/status.h"

namespace colla::ps {

// A worker has brought everything for its step.
struct Arrival {
  int worker = 0;
  std::int64_t step = 0;  // The update that it meant its gradients for: how many it had seen.
  bool empty = false;     // It had no samples left.
};

struct Drop {
  int worker = 0;
  std::int64_t step = 0;
  std::int64_t late = 0;  // Updates.
};

// To be carried out whole and in order: take, drop, release.
struct Decision {
  std::vector<int> take = {};  // Their gradients together make one update; empty: none is made.
  std::vector<Drop> drop = {};
  std::vector<int> release = {};  // They get the parameters as they are then.
  // What the sum of a gradient is multiplied by: `whole` makes a sum over some workers one over all
  // (the mean of their samples), otherwise it stays their share.
  bool whole = true;
};

enum class Consistency : std::uint8_t { kSync, kAsync, kSsp };
std::string_view toString(Consistency consistency);

struct PolicyOptions {
  Consistency consistency = Consistency::kSync;
  int workers = 1;
  // Sync: how many of them a step need not wait for; kAuto: stragglers, once they are found.
  static constexpr int kAuto = -1;
  int backup = 0;
  // Async: gradients that are older are refused; nothing: none are.
  std::optional<std::int64_t> maxStaleness = {};
  // SSP: how many steps a worker may be ahead of the slowest.
  std::int64_t staleness = 0;
  // Async, SSP: how many updates there are to be in all; nothing: as many as come.
  std::optional<std::int64_t> limit = {};

  // An update is made of one step of several workers,
  bool together() const {
    return consistency == Consistency::kSync ||
           (consistency == Consistency::kSsp && staleness == 0);
  }
  // and always of all of them: nobody can be done without.
  bool exact() const { return consistency == Consistency::kSync && backup == 0; }
  // How many workers may be lost, and the others go on.
  int spare() const;

  friend bool operator==(const PolicyOptions&, const PolicyOptions&) = default;
};
// kInvalidArgument, with the flag that says so.
Status validate(const PolicyOptions& options);

class Policy {
 public:
  virtual ~Policy() = default;

  virtual std::vector<Decision> arrived(const Arrival& arrival, TimePoint now) = 0;
  // A worker is gone for good: it left when it had finished, or was lost. An error when the others
  // can't go on without it, naming nobody: the caller knows its name.
  virtual Result<std::vector<Decision>> gone(int worker, bool finished, TimePoint now) = 0;
  // To be called at nextDeadline().
  virtual std::vector<Decision> tick(TimePoint /*now*/) { return {}; }
  virtual TimePoint nextDeadline() const { return TimePoint::max(); }
  // Whom others wait for at present.
  virtual std::vector<int> waitsFor() const { return {}; }
  // What people should know of: a straggler found, or back.
  std::vector<std::string> takeNews() { return std::exchange(news_, {}); }

 protected:
  void tell(std::string text) { news_.push_back(std::move(text)); }

 private:
  std::vector<std::string> news_;
};

// `step`: updates made before, by the run that this one goes on from.
std::unique_ptr<Policy> makePolicy(const PolicyOptions& options, std::int64_t step);

// How late gradients were: how many of each staleness.
using Staleness = std::map<std::int64_t, std::int64_t>;
// For people, "0: 12, 1: 3, 8-15: 1": from 8 on by powers of two.
std::string histogram(const Staleness& staleness);

}  // namespace colla::ps
