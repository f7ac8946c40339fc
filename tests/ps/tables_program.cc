// Workers that add to tables and print what they read: ./tables_program CASE STALENESS
// CASE `threads`: the server prints how many threads of its team have computed.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>

#include "colla/job.h"
#include "colla/server.h"
#include "colla/table.h"

namespace {

colla::Status addAndRead(colla::Job& job, std::int64_t staleness) {
  COLLA_TRY_ASSIGN(const auto tables,
                   colla::Tables::open(job,
                                       {{.name = "rows", .rows = 10, .width = 2},
                                        {.name = "whole", .rows = 3, .width = 1, .dense = true}},
                                       {.staleness = staleness}));
  colla::Table& rows = tables->table("rows");
  colla::Table& whole = tables->table("whole");
  const auto rank = static_cast<float>(job.rank());
  const std::vector<std::int64_t> both = {9, 4};
  for (int clock = 0; clock < 5; ++clock) {
    COLLA_TRY(rows.batchInc(both, std::vector<float>{1, 10, 100, rank}));
    COLLA_TRY(whole.inc(2, std::vector<float>{rank + 1}));
    // One's own changes are there at once.
    std::vector<float> before(2);
    COLLA_TRY(rows.get(9, before));
    if (before[0] < static_cast<float>(clock + 1)) std::printf("own change is missing\n");
    COLLA_TRY(tables->clock());
    if (tables->behind() > staleness) std::printf("too far behind\n");
  }
  // Everybody is through once nobody is behind.
  for (std::int64_t i = 0; i <= staleness; ++i) COLLA_TRY(tables->clock());
  std::vector<float> values(4);
  COLLA_TRY(rows.get(both, values));
  std::vector<float> dense(1);
  COLLA_TRY(whole.get(2, dense));
  std::printf("worker %d read %g %g %g %g and %g\n", job.rank(), values[0], values[1], values[2],
              values[3], dense[0]);
  return {};
}

colla::Status wrong(colla::Job& job, std::int64_t staleness) {
  COLLA_TRY_ASSIGN(const auto tables,
                   colla::Tables::open(job, {{.name = "rows", .rows = 10, .width = 2}},
                                       {.staleness = staleness}));
  colla::Table& rows = tables->table("rows");
  std::vector<float> two(2);
  std::vector<float> three(3);
  std::printf("%s\n", colla::toString(rows.get(10, two)).c_str());
  std::printf("%s\n", colla::toString(rows.inc(-1, two)).c_str());
  std::printf("%s\n", colla::toString(rows.get(3, three)).c_str());
  const std::vector<float> nan = {1, std::strtof("nan", nullptr)};
  std::printf("%s\n", colla::toString(rows.inc(3, nan)).c_str());
  // Nothing of all this has done any harm.
  COLLA_TRY(rows.inc(3, std::vector<float>{5, 6}));
  COLLA_TRY(tables->clock());
  COLLA_TRY(rows.get(3, two));
  std::printf("row 3 has %g %g\n", two[0], two[1]);
  return {};
}

// Enough rows for a server to share among its threads.
colla::Status addToALargeTable(colla::Job& job) {
  COLLA_TRY_ASSIGN(
      const auto tables,
      colla::Tables::open(job, {{.name = "whole", .rows = 1 << 20, .width = 4, .dense = true}}));
  for (int clock = 0; clock < 50; ++clock) {
    COLLA_TRY(tables->table("whole").inc(clock, std::vector<float>{1, 2, 3, 4}));
    COLLA_TRY(tables->clock());
  }
  return {};
}

// Threads of a server's team in this process that have had a processor for longer than it takes to
// wake up and go back to sleep.
std::set<std::string> computingThreads() {
  constexpr std::int64_t kLongerThanAWakeUp = 3'000'000;  // Nanoseconds.
  std::set<std::string> threads;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    std::int64_t onProcessor = 0;
    std::ifstream(task.path() / "schedstat") >> onProcessor;
    if (name == "colla-team" && onProcessor > kLongerThanAWakeUp) {
      threads.insert(task.path().filename());
    }
  }
  return threads;
}

colla::Status serveAndCountThreads(colla::Job& job) {
  std::atomic<bool> over = false;
  std::set<std::string> computing;
  std::thread watcher([&] {
    while (!over) {
      computing.merge(computingThreads());
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
  const colla::Status status = colla::serve(job);
  over = true;
  watcher.join();
  std::printf("%zu threads of the team have computed\n", computing.size());
  return status;
}

}  // namespace

int main(int /*argc*/, char** argv) {
  const auto job = colla::Job::init({.serves = true});
  colla::Status status = job.status();
  const std::string test = argv[1];
  if (status.ok() && (*job)->role() == colla::Role::kServer) {
    status = test == "threads" ? serveAndCountThreads(**job) : colla::serve(**job);
  } else if (status.ok()) {
    const std::int64_t staleness = std::atoll(argv[2]);
    status = test == "threads" ? addToALargeTable(**job)
             : test == "wrong" ? wrong(**job, staleness)
                               : addAndRead(**job, staleness);
  }
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", colla::toString(status).c_str());
  return 1;
}
