// A process of a job that makes COUNT allreduces of BYTES bytes, says "done" and stays until worker
// 0's standard input ends: somebody reads its metrics meanwhile.
//
//   metrics_member COUNT BYTES
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "colla/job.h"

using namespace colla;

namespace {

Status run(int count, std::size_t bytes) {
  COLLA_TRY_ASSIGN(const auto job, Job::init());
  std::vector<float> data(bytes / sizeof(float), 1);
  for (int i = 0; i < count; ++i) COLLA_TRY(allreduce(job->world(), data));
  std::cout << "done" << std::endl;
  if (job->rank() == 0) {
    for (std::string line; std::getline(std::cin, line);) continue;
  }
  return barrier(job->world());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const Status status = run(std::atoi(argv[1]), std::strtoull(argv[2], nullptr, 10));
  if (!status.ok()) std::cerr << status << std::endl;
  return status.ok() ? 0 : 1;
}
