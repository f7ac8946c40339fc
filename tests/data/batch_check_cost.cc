// What it costs to compare each batch with its data set's fields(), beside what it costs to copy
// the batch: build/tests/data/batch_check_cost. A step reads its batch and then computes with it,
// so the share of a step is smaller still.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <vector>

#include "data/batch_check.h"

namespace {

// Seconds per call: the least of several rounds.
template <typename Body>
double secondsOf(int calls, const Body& body) {
  double least = 1;
  for (int round = 0; round < 7; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) body();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    least = std::min(least, took.count() / calls);
  }
  return least;
}

}  // namespace

int main() {
  const auto data = colla::openDataset("synthetic:mnist:6000", colla::Part::kTrain);
  if (!data.ok()) return 1;
  std::vector<std::int64_t> indices(100);
  for (std::size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<std::int64_t>(i * 37);
  colla::Random random(1, 0, 0);
  const auto batch = (*data)->read(indices, random);
  if (!batch.ok()) return 1;

  const colla::data::BatchCheck check(*data);
  bool fine = true;
  const double checked =
      secondsOf(100'000, [&] { fine = check.check(indices, *batch).ok() && fine; });
  const double read = secondsOf(1'000, [&] { fine = (*data)->read(indices, random).ok() && fine; });
  std::printf("a batch of 100 images: %.3f us to read, %.4f us to check, %.2f %% of the reading\n",
              read * 1e6, checked * 1e6, 100 * checked / read);
  return fine ? 0 : 1;
}
