#include <algorithm>
#include <iostream>

#include "colla/job.h"

colla::Status run() {
  COLLA_TRY_ASSIGN(const auto job, colla::Job::init());
  COLLA_TRY_ASSIGN(const auto bucket, job->allocate(1000 * sizeof(float)));

  const auto gradients = bucket.as<float>();
  std::ranges::fill(gradients, static_cast<float>(job->rank()));  // Where a model writes its own.
  COLLA_TRY(colla::allreduce(job->world(), gradients, {.op = colla::ReduceOp::kAverage}));

  std::cout << "rank " << job->rank() << " of " << job->size() << ": " << gradients[0] << std::endl;
  return {};
}

int main() {
  const colla::Status status = run();
  if (!status.ok()) std::cerr << status << std::endl;
  return status.ok() ? 0 : 1;
}
