// A process of a job that goes through epochs, one after the other, and sums slices in each.
//
//   epoch_member ROUNDS PLAN...     A plan: "0,2,3:1" are the workers 0, 2 and 3, of which the one
//                                   with rank 1 in the epoch is the recorder.
//
// Only the workers of the present epoch give the plan; idle workers and servers learn it. Says
// "going" after the first round, and for every epoch of the first: its number, rank, workers,
// recorder and the hash of the sum.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <vector>

#include "colla/job.h"
#include "job/slice_sums.h"

using namespace colla;

namespace {

constexpr std::size_t kCount = 5000;

EpochPlan parse(const std::string& text) {
  EpochPlan plan;
  std::istringstream words(text);
  char separator = 0;
  do {
    words >> plan.workers.emplace_back();
  } while (words >> separator && separator == ',');
  if (separator == ':') words >> plan.recorder;
  return plan;
}

Status pass(Job& job, const EpochPlan& plan, bool tell) {
  const auto before = std::chrono::steady_clock::now();
  const bool plans = job.epoch().takesPart();
  COLLA_TRY(job.replaceEpoch(plans ? std::optional(plan) : std::nullopt));
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - before;
  const Epoch epoch = job.epoch();
  if (tell) {
    std::cout << fmt::format("epoch {} rank {} workers {} recorder {} records {}", epoch.number(),
                             epoch.rank(), fmt::join(epoch.processes(), ","), epoch.recorder(),
                             epoch.records())
              << std::endl;
    if (plans) std::cerr << fmt::format("replaced in {:.3f} ms", took.count()) << std::endl;
  }
  if (!epoch.takesPart()) return {};
  COLLA_TRY_ASSIGN(const std::uint32_t hash, test::sumHash(epoch.world(), epoch.slices(), kCount));
  if (tell) std::cout << fmt::format("sum {:08x}", hash) << std::endl;
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  auto job = Job::init({.serves = true});
  if (!job.ok()) {
    std::cout << job.status() << std::endl;
    return 1;
  }
  const int rounds = std::atoi(argv[1]);
  for (int round = 0; round < rounds; ++round) {
    for (int i = 2; i < argc; ++i) {
      const Status status = pass(**job, parse(argv[i]), round == 0);
      if (status.ok()) continue;
      std::cout << "peer=" << status.peer() << " " << status << std::endl;
      return 3;
    }
    if (round == 0) std::cout << "going" << std::endl;
  }
  std::cout << "done" << std::endl;
  return 0;
}
