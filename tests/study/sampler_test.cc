// The sampler beside a real process with a known role, and a child of it that works.
#include "study/sampler.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "support/eventually.h"

namespace colla::study {
namespace {

TEST(SamplerTest, SeesRolesAndWhatTheyTake) {
  // A shell that is no worker starts one, which keeps a core busy.
  const pid_t pid = fork();
  if (pid == 0) {
    execl("/bin/sh", "sh", "-c",
          "COLLA_ROLE=worker COLLA_RANK=3 sh -c 'while :; do :; done' & "
          "COLLA_ROLE=ps COLLA_RANK=0 sleep 60 & wait",
          nullptr);
    _exit(127);
  }
  Sampler sampler(pid, "launcher");
  double seconds = 0;
  const auto find = [&](const std::string& role) {
    const UseSample* found = nullptr;
    for (const UseSample& use : sampler.uses()) {
      if (use.role == role) found = &use;
    }
    return found;
  };
  const bool seen = test::eventually([&] {
    sampler.sample(seconds += 0.1, true);
    const UseSample* worker = find("worker");
    return worker != nullptr && worker->user + worker->system > 0.3 && find("ps") != nullptr;
  });
  const UseSample* worker = find("worker");
  EXPECT_TRUE(seen);
  ASSERT_NE(worker, nullptr);
  EXPECT_EQ(worker->rank, 3);
  EXPECT_GT(worker->resident, 0);
  EXPECT_GT(worker->proportional, 0);
  EXPECT_GT(worker->faults, 0);
  const double before = worker->user;
  EXPECT_GT(sampler.ownCost(), 0);
  EXPECT_FALSE(sampler.host().empty());
  // What has ended keeps its times, and no memory.
  const std::string kill9 = "pkill -9 -P " + std::to_string(pid);
  EXPECT_EQ(std::system(kill9.c_str()), 0);
  int status = 0;
  waitpid(pid, &status, 0);
  sampler.sample(seconds + 1, true);
  EXPECT_GE(find("worker")->user, before);
  EXPECT_EQ(find("worker")->resident, 0);
}

}  // namespace
}  // namespace colla::study
