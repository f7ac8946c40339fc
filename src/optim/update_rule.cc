#include "optim/update_rule.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/check.h"
#include "optim/power.h"

namespace colla::optim {
namespace {

Form makeForm(const Sgd& options) {
  return {.method = Method::kSgd, .momentum = options.momentum != 0, .nesterov = options.nesterov};
}
Form makeForm(const Adagrad& /*options*/) { return {.method = Method::kAdagrad}; }
Form makeForm(const RmsProp& options) {
  return {
      .method = Method::kRmsProp, .momentum = options.momentum != 0, .centered = options.centered};
}
Form makeForm(const Adam& options) { return {.method = Method::kAdam, .amsgrad = options.amsgrad}; }
Form makeForm(const AdamW& options) {
  return {.method = Method::kAdam, .amsgrad = options.amsgrad};
}

// In float64, then rounded once to the type of the tensor.
using Numbers = Coefficients<double>;

void fill(const Sgd& options, const Update& /*update*/, Numbers& numbers) {
  numbers.momentum = options.momentum;
  numbers.undamped = 1 - options.dampening;
}

void fill(const Adagrad& options, const Update& update, Numbers& numbers) {
  numbers.rate = update.lr / (1 + static_cast<double>(update.step - 1) * options.lrDecay);
  numbers.epsilon = options.epsilon;
}

void fill(const RmsProp& options, const Update& /*update*/, Numbers& numbers) {
  numbers.momentum = options.momentum;
  numbers.beta2 = options.alpha;
  numbers.fresh2 = 1 - options.alpha;
  numbers.epsilon = options.epsilon;
}

// lr / b1 * m / (sqrt(v) / sqrt(b2) + epsilon), where b1 and b2 correct the bias, with sqrt(b2)
// multiplied into both sides of the fraction.
template <typename AnyAdam>
void fill(const AnyAdam& options, const Update& update, Numbers& numbers) {
  const double root = std::sqrt(1 - power(options.beta2, update.step));
  numbers.rate = update.lr * root / (1 - power(options.beta1, update.step));
  numbers.epsilon = options.epsilon * root;
  numbers.shrink = 1 - update.lr * options.weightDecay;
  numbers.beta1 = options.beta1;
  numbers.fresh1 = 1 - options.beta1;
  numbers.beta2 = options.beta2;
  numbers.fresh2 = 1 - options.beta2;
}

}  // namespace

Result<UpdateRule> UpdateRule::make(const OptimizerOptions& options) {
  COLLA_TRY(validate(options));
  return UpdateRule(options);
}

UpdateRule::UpdateRule(const OptimizerOptions& options) : options_(options) {
  form_ = std::visit([](const auto& chosen) { return makeForm(chosen); }, options);
  const double decay = std::visit([](const auto& chosen) { return chosen.weightDecay; }, options);
  if (decay != 0) {
    const bool beside = std::holds_alternative<AdamW>(options);
    form_.decay = beside ? Decay::kParameter : Decay::kGradient;
  }

  switch (form_.method) {
    case Method::kSgd:
      if (form_.momentum) addSlot(0, "momentum_buffer");
      break;
    case Method::kAdagrad:
      addSlot(0, "sum", std::get<Adagrad>(options).initialAccumulator);
      break;
    case Method::kRmsProp:
      addSlot(0, "square_avg");
      if (form_.momentum) addSlot(1, "momentum_buffer");
      if (form_.centered) addSlot(2, "grad_avg");
      break;
    case Method::kAdam:
      addSlot(0, "exp_avg");
      addSlot(1, "exp_avg_sq");
      if (form_.amsgrad) addSlot(2, "max_exp_avg_sq");
      break;
  }
}

void UpdateRule::addSlot(int place, std::string_view name, double initial) {
  slots_.push_back({name, initial});
  places_.push_back(place);
}

Form UpdateRule::formOf(std::int64_t step) const {
  COLLA_CHECK(step >= 1);
  Form form = form_;
  form.firstStep = step == 1;
  return form;
}

template <typename T>
Coefficients<T> UpdateRule::coefficientsOf(const Update& update) const {
  Numbers n{};
  n.gradScale = update.gradScale;
  n.weightDecay = std::visit([](const auto& chosen) { return chosen.weightDecay; }, options_);
  n.rate = update.lr;
  std::visit([&](const auto& chosen) { fill(chosen, update, n); }, options_);

  const auto round = [](double number) { return static_cast<T>(number); };
  return {.gradScale = round(n.gradScale),
          .weightDecay = round(n.weightDecay),
          .shrink = round(n.shrink),
          .rate = round(n.rate),
          .momentum = round(n.momentum),
          .undamped = round(n.undamped),
          .beta1 = round(n.beta1),
          .fresh1 = round(n.fresh1),
          .beta2 = round(n.beta2),
          .fresh2 = round(n.fresh2),
          .epsilon = round(n.epsilon)};
}

template <typename T>
std::array<T*, kMaxSlots> UpdateRule::placesOf(std::span<const std::span<T>> slots,
                                               std::size_t size) const {
  COLLA_CHECK(slots.size() == slots_.size());
  std::array<T*, kMaxSlots> places{};
  for (std::size_t i = 0; i < slots.size(); ++i) {
    COLLA_CHECK(slots[i].size() == size);
    places[places_[i]] = slots[i].data();
  }
  return places;
}

template <typename T>
void UpdateRule::apply(const Update& update, std::span<T> parameter, std::span<const T> gradient,
                       std::span<const std::span<T>> slots) const {
  COLLA_CHECK(gradient.size() == parameter.size());
  const auto places = placesOf(slots, parameter.size());
  const auto kernel = kernelFor<T>(formOf(update.step));
  kernel(coefficientsOf<T>(update), parameter.data(), gradient.data(), places[0], places[1],
         places[2], parameter.size());
}

template <typename T>
void UpdateRule::applyRows(const Update& update, std::span<T> parameter, std::size_t rowSize,
                           std::span<const std::int64_t> rows, std::span<const T> gradient,
                           std::span<const std::span<T>> slots) const {
  COLLA_CHECK(gradient.size() == rows.size() * rowSize);
  if (gradient.empty()) return;
  const auto places = placesOf(slots, parameter.size());
  const auto kernel = kernelFor<T>(formOf(update.step));
  const auto coefficients = coefficientsOf<T>(update);
  const auto height = static_cast<std::int64_t>(parameter.size() / rowSize);
  COLLA_CHECK(std::ranges::adjacent_find(rows, std::greater_equal()) == rows.end());
  COLLA_CHECK(rows.front() >= 0 && rows.back() < height);

  // Neighbours go in one call: bits don't depend on the cut.
  for (std::size_t begin = 0, end = 0; begin < rows.size(); begin = end) {
    end = begin + 1;
    while (end < rows.size() && rows[end] == rows[end - 1] + 1) ++end;
    const std::size_t at = static_cast<std::size_t>(rows[begin]) * rowSize;
    const auto from = [at](T* slot) { return slot == nullptr ? nullptr : slot + at; };
    kernel(coefficients, parameter.data() + at, gradient.data() + begin * rowSize, from(places[0]),
           from(places[1]), from(places[2]), (end - begin) * rowSize);
  }
}

template void UpdateRule::apply(const Update&, std::span<float>, std::span<const float>,
                                std::span<const std::span<float>>) const;
template void UpdateRule::apply(const Update&, std::span<double>, std::span<const double>,
                                std::span<const std::span<double>>) const;
template void UpdateRule::applyRows(const Update&, std::span<float>, std::size_t,
                                    std::span<const std::int64_t>, std::span<const float>,
                                    std::span<const std::span<float>>) const;
template void UpdateRule::applyRows(const Update&, std::span<double>, std::size_t,
                                    std::span<const std::int64_t>, std::span<const double>,
                                    std::span<const std::span<double>>) const;

}  // namespace colla::optim
