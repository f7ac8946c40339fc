#include "train/slice_metrics.h"

#include "base/check.h"

namespace colla::train {

SliceMetrics::SliceMetrics(Job& job, const SliceMap& map, std::size_t count)
    : job_(job),
      map_(map),
      count_(count),
      sums_(map.subtrees(job.rank()), DataType::kFloat64),
      memory_(count * static_cast<std::size_t>(sums_.buffers())) {
  for (int i = 0; i < sums_.buffers(); ++i) {
    buffers_.push_back(reinterpret_cast<std::byte*>(memory_.data() + i * count));
  }
}

void SliceMetrics::add(int slice, std::span<const double> values) {
  COLLA_CHECK(values.size() == count_);
  sums_.add(slice, buffers_, values.data(), count_);
}

Result<std::span<const double>> SliceMetrics::reduce() {
  std::vector<ConstBuffer> partials;
  for (int i = 0; i < sums_.partials(); ++i) {
    partials.emplace_back(buffers_[i], count_, DataType::kFloat64);
  }
  const std::span<double> result(memory_.data(), count_);
  COLLA_TRY(allreduce(job_.world(), map_, partials, result));
  return std::span<const double>(result);
}

}  // namespace colla::train
