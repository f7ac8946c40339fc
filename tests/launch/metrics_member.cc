// A process of a job that makes COUNT allreduces of BYTES bytes, says "done" and stays until worker
// 0's standard input ends: somebody reads its metrics meanwhile. In a job with servers, workers add
// to two rows of a table and read one, COUNT times, instead.
//
//   metrics_member COUNT BYTES
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "colla/job.h"
#include "colla/server.h"
#include "colla/table.h"

using namespace colla;

namespace {

// Says that the work is done, and waits.
Status stay(Job& job) {
  std::cout << "done" << std::endl;
  if (job.rank() == 0) {
    for (std::string line; std::getline(std::cin, line);) continue;
  }
  return barrier(job.world());
}

Status useTable(Job& job, int count) {
  COLLA_TRY_ASSIGN(const auto tables,
                   Tables::open(job, {{.name = "rows", .rows = 10, .width = 2}}));
  Table& table = tables->table("rows");
  const std::vector<std::int64_t> rows = {9, 4};
  const std::vector<float> changes = {1, 2, 3, 4};
  std::vector<float> read(2);
  for (int i = 0; i < count; ++i) {
    COLLA_TRY(table.batchInc(rows, changes));
    COLLA_TRY(tables->clock());
    COLLA_TRY(table.get(4, read));
  }
  return stay(job);
}

Status run(int count, std::size_t bytes) {
  COLLA_TRY_ASSIGN(const auto job, Job::init({.serves = true}));
  if (job->role() == Role::kServer) return serve(*job);
  if (job->servers() > 0) return useTable(*job, count);
  std::vector<float> data(bytes / sizeof(float), 1);
  for (int i = 0; i < count; ++i) COLLA_TRY(allreduce(job->world(), data));
  return stay(*job);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const Status status = run(std::atoi(argv[1]), std::strtoull(argv[2], nullptr, 10));
  if (!status.ok()) std::cerr << status << std::endl;
  return status.ok() ? 0 : 1;
}
