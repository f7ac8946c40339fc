// An optimizer at work: turns gradients into the next parameters, without torch. Workers and
// parameter servers run the same rule and get the same bits.
//
// An element's result depends on its own values and the numbers in Update alone: not on its place
// in a buffer, on how a buffer is cut, or on the build of the kernels that the CPU can run. The
// rule holds no state; the caller keeps parameters, slots and step counts.
//
// Thread safety: immutable after make(); all of it may be called from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "colla/optimizer.h"
#include "colla/status.h"
#include "optim/kernels.h"

namespace colla::optim {

// State that the optimizer keeps for each element of a parameter, under torch's name for it.
struct Slot {
  std::string_view name;
  double initial = 0;
};

struct Update {
  // How many updates this parameter will have had with this one: 1 for its first.
  std::int64_t step = 1;
  // As the schedule has it for this step; takes the place of the options' own.
  double lr = 0;
  // What the gradient is multiplied by first, for clipping. 1 changes no bit.
  double gradScale = 1;
};

class UpdateRule {
 public:
  // kInvalidArgument as validate() says.
  static Result<UpdateRule> make(const OptimizerOptions& options);

  const OptimizerOptions& options() const { return options_; }
  std::span<const Slot> slots() const { return slots_; }

  // Updates one tensor, or any part of it. `slots` has one span for each of slots(), in that order;
  // all spans have the length of `parameter`, and none overlap. For float and double.
  template <typename T>
  void apply(const Update& update, std::span<T> parameter, std::span<const T> gradient,
             std::span<const std::span<T>> slots) const;

  // Updates some rows of a matrix: `gradient` has one row of `rowSize` elements for each of `rows`,
  // which ascend, and `parameter` and `slots` are whole. These rows get the bits that apply() gives
  // them, the others keep theirs: no decay of weights or averages reaches a row in a step that it
  // has no gradient in. The step is the tensor's, as in torch's SparseAdam, also for a row that is
  // touched for the first time.
  template <typename T>
  void applyRows(const Update& update, std::span<T> parameter, std::size_t rowSize,
                 std::span<const std::int64_t> rows, std::span<const T> gradient,
                 std::span<const std::span<T>> slots) const;

 private:
  explicit UpdateRule(const OptimizerOptions& options);
  void addSlot(int place, std::string_view name, double initial = 0);

  Form formOf(std::int64_t step) const;
  template <typename T>
  Coefficients<T> coefficientsOf(const Update& update) const;
  template <typename T>
  std::array<T*, kMaxSlots> placesOf(std::span<const std::span<T>> slots, std::size_t size) const;

  OptimizerOptions options_;
  Form form_;
  std::vector<Slot> slots_;
  std::vector<int> places_;  // Where the kernel expects each of slots_.
};

}  // namespace colla::optim
