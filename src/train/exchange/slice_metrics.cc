#include "train/exchange/slice_metrics.h"

#include "base/check.h"
#include "colla/collectives.h"

namespace colla::train {

SliceMetrics::SliceMetrics(const Workers& workers, std::size_t count)
    : SliceMetrics(&workers.group, workers.map, workers.rank(), count) {}

SliceMetrics::SliceMetrics(int slices, std::size_t count)
    : SliceMetrics(nullptr, *SliceMap::even(slices, 1), 0, count) {}

SliceMetrics::SliceMetrics(Group* group, SliceMap map, int rank, std::size_t count)
    : group_(group),
      map_(std::move(map)),
      count_(count),
      sums_(map_.subtrees(rank), DataType::kFloat64),
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
  const std::span<double> result(memory_.data(), count_);
  if (group_ == nullptr) {
    for (double& sum : result) sum += 0.0;  // As everywhere: no sum is -0.0.
    return std::span<const double>(result);
  }
  std::vector<ConstBuffer> partials;
  for (int i = 0; i < sums_.partials(); ++i) {
    partials.emplace_back(buffers_[i], count_, DataType::kFloat64);
  }
  COLLA_TRY(allreduce(*group_, map_, partials, result));
  return std::span<const double>(result);
}

}  // namespace colla::train
