// What strangers can take from a listener's process: connections, processor time, descriptors.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <thread>

#include "net_fixture.h"

namespace colla::transport::net {
namespace {

using namespace std::chrono_literals;

TEST_F(NetTest, HalfOpenConnectionsAreLimited) {
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlim_t needed = 2 * Listener::kMaxHalfOpen + 200;
  if (limit.rlim_max < needed) GTEST_SKIP() << "needs " << needed << " descriptors";
  limit.rlim_cur = std::max(limit.rlim_cur, needed);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);

  listen(Mode::kTls);
  std::vector<UniqueFd> idle;
  for (std::size_t i = 0; i < Listener::kMaxHalfOpen + 10; ++i) {
    idle.push_back(say({}));
    for (auto& connection : listener_->step()) accepted_.push_back(std::move(connection));
  }
  ASSERT_TRUE(pump([&] { return closed(idle[9].get()); }));
  EXPECT_EQ(listener_->halfOpen(), Listener::kMaxHalfOpen);
  EXPECT_FALSE(closed(idle[10].get()));
  EXPECT_EQ(listener_->refusalsLogged(), 1U);
  expectOpenFor(Mode::kTls);
}

// Strangers that are sent away and come back at once: the owner of the listener has other things to
// do.
TEST_F(NetTest, StrangersThatKeepComingTakeLittleTime) {
  listen(Mode::kPlain);
  std::atomic<bool> stop = false;
  std::atomic<int> visits = 0;
  std::thread strangers([&] {
    std::vector<UniqueFd> ends(64);
    for (; !stop; std::this_thread::yield()) {
      for (UniqueFd& end : ends) {
        if (end.valid() && !closed(end.get())) continue;
        end = say(std::vector<std::byte>(5, std::byte{'x'}));
        ++visits;
      }
    }
  });
  const auto processorTime = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  };
  const Deadline end = Deadline::after(500ms);
  std::chrono::nanoseconds spent{};
  while (!end.expired()) {
    (void)waitFor(listener_->fd(), POLLIN, end);
    const auto before = processorTime();
    EXPECT_TRUE(listener_->step().empty());
    spent += processorTime() - before;
  }
  stop = true;
  strangers.join();
  EXPECT_GT(visits, 64);
  EXPECT_LT(spent, 50ms);  // A tenth of the time; the listener promises a hundredth.
  expectOpenFor(Mode::kPlain);
}

TEST_F(NetTest, SilentStrangersLeaveDescriptorsToTheProcess) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = 300;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  listen(Mode::kTls);
  ASSERT_EQ(listener_->maxHalfOpen(), 150U);
  // The strangers' own ends are of this process too.
  few.rlim_cur += 200;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 200; ++i) strangers.push_back(say({}));
  EXPECT_TRUE(pump([&] { return listener_->halfOpen() == listener_->maxHalfOpen(); }));
  EXPECT_TRUE(pump([&] { return closed(strangers[0].get()); }));
  EXPECT_TRUE(UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)).valid());
  EXPECT_EQ(listener_->refusalsLogged(), 1U);
  expectOpenFor(Mode::kTls);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

// Out of descriptors a listener pauses; once there are some, it goes on.
TEST_F(NetTest, SurvivesLackOfDescriptors) {
  listen(Mode::kUnix);
  Client& client = connect(optionsOf(Mode::kUnix, 1, "rank 1"));
  std::vector<UniqueFd> hoard;
  while (true) {
    UniqueFd fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!fd.valid()) break;
    hoard.push_back(std::move(fd));
  }
  EXPECT_TRUE(listener_->step().empty());
  EXPECT_EQ(listener_->refusalsLogged(), 1U);
  pollfd entry{listener_->fd(), POLLIN, 0};
  EXPECT_EQ(poll(&entry, 1, 0), 0);  // It does not spin.
  hoard.clear();
  EXPECT_TRUE(pump([&] { return client.ok() && accepted_.size() == 1; }));
}

}  // namespace
}  // namespace colla::transport::net
