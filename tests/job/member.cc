// A process of a job that does one kind of collective again and again, until it fails or the
// given number is done. Says "going" after the first, and how it ended.
//
//   member OPERATION COUNT BYTES TIMEOUT_MS
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <numeric>
#include <vector>

#include "colla/job.h"

using namespace colla;

// From now on this process can map `more` bytes and no further.
static void limitAddresses(std::size_t more) {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlimit limit{pages * 4096 + more, RLIM_INFINITY};
  if (setrlimit(RLIMIT_AS, &limit) != 0) std::perror("setrlimit");
}

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  auto made = Job::init();
  if (!made.ok()) {
    std::cout << made.status() << std::endl;
    return 1;
  }
  Job& job = **made;
  Group& world = job.world();
  const std::size_t count = std::strtoull(argv[3], nullptr, 10) / sizeof(float);
  const std::chrono::milliseconds timeout(std::atoi(argv[4]));
  auto bucket = job.allocate(count * sizeof(float));
  if (!bucket.ok()) {
    std::cout << bucket.status() << std::endl;
    return 1;
  }
  std::vector<float> data(count), many(count * job.size());
  const std::vector<std::size_t> counts(job.size(), count);
  const int root = 0;
  const std::map<std::string, std::function<Status()>> operations = {
      {"none", [] { return Status(); }},
      {"barrier", [&] { return barrier(world, {timeout}); }},
      {"common",
       [&]() -> Status {  // Each rank writes its number where all see it.
         auto common = job.allocateCommon(job.size() * sizeof(float));
         if (!common.ok()) return common.status();
         const auto ranks = common->as<float>();
         ranks[job.rank()] = static_cast<float>(job.rank() + 1);
         if (Status status = barrier(world, {timeout}); !status.ok()) return status;
         float sum = 0;
         for (const float rank : ranks) sum += rank;
         const bool all = 2 * sum == static_cast<float>(job.size() * (job.size() + 1));
         return all ? Status() : Status(StatusCode::kInvalidArgument, "not in common");
       }},
      // Rank 1 has addresses for some of it, but not for all.
      {"tightCommon",
       [&] {
         if (job.rank() == 1) limitAddresses(count * sizeof(float) / 2);
         return job.allocateCommon(count * sizeof(float)).status();
       }},
      {"tightSubgroup",
       [&] {
         std::vector<int> ranks(job.size());
         std::iota(ranks.begin(), ranks.end(), 0);
         if (job.rank() == 1) limitAddresses(count * sizeof(float));
         return world.subgroup(ranks).status();
       }},
      {"broadcast", [&] { return broadcast(world, data, root, {timeout}); }},
      {"shared", [&] { return allreduce(world, bucket->as<float>(), {.timeout = timeout}); }},
      {"allreduce", [&] { return allreduce(world, data, {.timeout = timeout}); }},
      {"async",
       [&] {
         return world.async([&](Group& g) { return allreduce(g, data, {.timeout = timeout}); })
             .wait();
       }},
      {"reduce", [&] { return reduce(world, data, data, root, {.timeout = timeout}); }},
      {"reduceScatter", [&] { return reduceScatter(world, many, data, {.timeout = timeout}); }},
      {"allgather", [&] { return allgather(world, data, many, {timeout}); }},
      {"allgatherv", [&] { return allgatherv(world, data, many, counts, {timeout}); }},
      {"alltoall",
       [&] {
         std::vector<float> other(many.size());
         return alltoall(world, many, other, {timeout});
       }},
      {"alltoallv",
       [&] {
         std::vector<float> other(many.size());
         return alltoallv(world, many, counts, other, counts, {timeout});
       }},
      {"gather", [&] { return gather(world, data, many, root, {timeout}); }},
      {"gatherBut5",
       [&] {  // Rank 5 does not come.
         while (job.rank() == 5) pause();
         return gather(world, data, many, root, {timeout});
       }},
      {"scatter", [&] { return scatter(world, many, data, root, {timeout}); }},
      {"message",
       [&] {  // Round the ring, rank 0 first.
         const int next = (job.rank() + 1) % job.size();
         const int previous = (job.rank() + job.size() - 1) % job.size();
         if (job.rank() == 0) {
           if (Status status = send(world, data, next, 0, {timeout}); !status.ok()) return status;
           return recv(world, data, previous, 0, {timeout});
         }
         if (Status status = recv(world, data, previous, 0, {timeout}); !status.ok()) return status;
         return send(world, data, next, 0, {timeout});
       }},
  };
  const auto operation = operations.find(argv[1]);
  if (operation == operations.end()) return 2;
  std::cout << "rank " << job.rank() << " of " << job.size() << ", slices " << job.slices()
            << ", threads " << job.threads() << std::endl;
  const int times = std::atoi(argv[2]);
  for (int i = 0; i < times; ++i) {
    const Status status = operation->second();
    if (!status.ok()) {
      std::cout << "peer=" << status.peer() << " " << status << std::endl;
      // Whose end would tell the others as well stays.
      while (operation->first.starts_with("tight")) pause();
      return 3;
    }
    if (i == 0) std::cout << "going" << std::endl;
  }
  std::cout << "done" << std::endl;
  return 0;
}
