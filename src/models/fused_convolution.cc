#include "models/fused_convolution.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include <algorithm>

#include "colla/error.h"
#include "models/kernels/letter_convolution.h"

namespace colla::models {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

std::shared_ptr<const kernels::Letters> lettersOf(const Tensor& sequence) {
  if (sequence.dim() != 2 || sequence.scalar_type() != torch::kUInt8) {
    throw Error(StatusCode::kInvalidArgument, "protein sequences are rows of uint8");
  }
  const Tensor rows = sequence.contiguous();
  return valueOrThrow(kernels::Letters::create(
      {rows.const_data_ptr<std::uint8_t>(), static_cast<std::size_t>(rows.numel())}, rows.size(0),
      rows.size(1)));
}

// Ranges of filters in threads: what a filter gets does not depend on the others.
template <typename Run>
void forFilters(std::int64_t filters, const Run& run) {
  constexpr std::int64_t kBlock = kernels::kFilterBlock;
  at::parallel_for(0, (filters + kBlock - 1) / kBlock, 1,
                   [&](std::int64_t begin, std::int64_t end) {
                     run(kernels::FilterRange{begin * kBlock, std::min(end * kBlock, filters)});
                   });
}

struct Maxima {
  Tensor value;
  Tensor position;
};

Maxima findMaxima(const LetterBatch& batch, const Tensor& weight) {
  const std::int64_t samples = batch.letters().samples();
  const std::int64_t filters = weight.size(0);
  Maxima maxima{torch::empty({samples, filters}, weight.options().requires_grad(false)),
                torch::empty({samples, filters}, torch::kInt32)};
  const Tensor rows = weight.contiguous();
  AT_DISPATCH_FLOATING_TYPES(weight.scalar_type(), "maxConvolution", [&] {
    const auto* const from = rows.const_data_ptr<scalar_t>();
    auto* const value = maxima.value.data_ptr<scalar_t>();
    auto* const position = maxima.position.data_ptr<std::int32_t>();
    forFilters(filters, [&](kernels::FilterRange range) {
      kernels::maxConvolution(batch.letters(), from, filters, weight.size(2), range, value,
                              position);
    });
  });
  return maxima;
}

// Filters x (classes x window).
Tensor gradientOfWinners(const LetterBatch& batch, const Tensor& gradient, const Tensor& position,
                         std::int64_t window) {
  const std::int64_t filters = gradient.size(1);
  const Tensor rows = gradient.contiguous();
  Tensor result = torch::empty({filters, kernels::kClasses * window}, gradient.options());
  AT_DISPATCH_FLOATING_TYPES(gradient.scalar_type(), "maxConvolutionBackward", [&] {
    const auto* const from = rows.const_data_ptr<scalar_t>();
    const auto* const places = position.const_data_ptr<std::int32_t>();
    auto* const to = result.data_ptr<scalar_t>();
    forFilters(filters, [&](kernels::FilterRange range) {
      kernels::maxConvolutionBackward(batch.letters(), from, places, filters, window, range, to);
    });
  });
  return result;
}

constexpr char kBatch[] = "batch";
constexpr char kWindow[] = "window";

void remember(AutogradContext* context, const LetterBatchPtr& batch, const Tensor& weight) {
  context->saved_data[kBatch] = c10::IValue::make_capsule(batch);
  context->saved_data[kWindow] = weight.size(2);
}
LetterBatchPtr batchOf(AutogradContext* context) {
  return c10::static_intrusive_pointer_cast<LetterBatch>(
      context->saved_data.at(kBatch).toCapsule());
}
std::int64_t windowOf(AutogradContext* context) { return context->saved_data.at(kWindow).toInt(); }

struct MaxConvolution : torch::autograd::Function<MaxConvolution> {
  static Tensor forward(AutogradContext* context, const LetterBatchPtr& batch,
                        const Tensor& weight) {
    const Maxima maxima = findMaxima(*batch, weight);
    remember(context, batch, weight);
    context->save_for_backward({maxima.position});
    return maxima.value;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const std::int64_t window = windowOf(context);
    const Tensor position = context->get_saved_variables().at(0);
    const Tensor result = gradientOfWinners(*batchOf(context), gradients.at(0), position, window);
    return {Tensor(), result.view({-1, kernels::kClasses, window})};
  }
};

// Names as in models/kernels/letter_pairs.h. The gradient g of the normalised maxima y comes to a
// position's value as
//   (g at the winner - sum of g / M - (value - mean) / root * sum of (g y) / M) / root
// and from there to the weights by the class vectors x: the winners' letters, s, and P w, which the
// variance needed already.
struct NormalisedMaxConvolution : torch::autograd::Function<NormalisedMaxConvolution> {
  static variable_list forward(AutogradContext* context, const LetterBatchPtr& batch,
                               const Tensor& weight, double epsilon) {
    const Maxima maxima = findMaxima(*batch, weight);
    const std::int64_t window = weight.size(2);
    const std::int64_t width = kernels::kClasses * window;
    const auto options = weight.options().requires_grad(false);
    const Tensor sums = torch::empty({width}, options);
    Tensor products = torch::empty({width, width}, options);
    AT_DISPATCH_FLOATING_TYPES(weight.scalar_type(), "moments", [&] {
      batch->pairs().moments(window, sums.data_ptr<scalar_t>(), products.data_ptr<scalar_t>());
    });
    const auto count = static_cast<double>(batch->pairs().windows(window));
    const Tensor filters = weight.reshape({-1, width});
    // Statistics in bfloat16 would be too coarse to take differences of.
    const c10::impl::ExcludeDispatchKeyGuard noAutocast(c10::autocast_dispatch_keyset);
    const Tensor spread = filters.mm(products);
    const Tensor mean = filters.mv(sums) / count;
    // Rounding may take a variance of zero below it.
    const Tensor variance = ((filters * spread).sum(1) / count).clamp_min_(0);
    const Tensor perRoot = (variance + epsilon).rsqrt_();
    const Tensor value = (maxima.value - mean).mul_(perRoot);

    remember(context, batch, weight);
    context->save_for_backward({maxima.position, value, sums, spread, perRoot});
    context->mark_non_differentiable({mean, variance});
    return {value, mean, variance};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const Tensor& gradient = gradients.at(0);
    const variable_list saved = context->get_saved_variables();
    const Tensor &position = saved.at(0), &value = saved.at(1), &sums = saved.at(2);
    const Tensor &spread = saved.at(3), &perRoot = saved.at(4);
    const LetterBatchPtr batch = batchOf(context);
    const std::int64_t window = windowOf(context);
    const auto count = static_cast<double>(batch->pairs().windows(window));

    Tensor result = gradientOfWinners(*batch, gradient * perRoot, position, window);
    result.addr_(gradient.sum(0).mul_(perRoot), sums, 1, -1 / count);
    const Tensor slope = (gradient * value).sum(0).mul_(perRoot).mul_(perRoot);
    result.addcmul_(spread, slope.unsqueeze(1), -1 / count);
    return {Tensor(), result.view({-1, kernels::kClasses, window}), Tensor()};
  }
};

}  // namespace

LetterBatch::LetterBatch(const Tensor& sequence, std::int64_t longest)
    : letters_(lettersOf(sequence)), longest_(longest) {}

const kernels::LetterPairs& LetterBatch::pairs() {
  if (!pairs_) pairs_ = std::make_unique<const kernels::LetterPairs>(letters_, longest_);
  return *pairs_;
}

Tensor maxConvolution(const LetterBatchPtr& batch, const Tensor& weight) {
  return MaxConvolution::apply(batch, weight);
}

Normalised normalisedMaxConvolution(const LetterBatchPtr& batch, const Tensor& weight,
                                    double epsilon) {
  const variable_list results = NormalisedMaxConvolution::apply(batch, weight, epsilon);
  return {results.at(0), results.at(1), results.at(2), batch->pairs().windows(weight.size(2))};
}

}  // namespace colla::models
