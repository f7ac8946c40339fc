// The guardian as its callers see it, apart from `colla run`: functions as processes, network
// namespaces, and directories that go with the job.
#include "launch/guardian.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "launch/scratch.h"
#include "support/eventually.h"
#include "support/scratch.h"

namespace colla::launch {
namespace {

using test::eventually;
using ::testing::ElementsAre;

class GuardianTest : public ::testing::Test {
 protected:
  // What this process has not written yet is nothing that its forks should write.
  GuardianTest() { std::fflush(nullptr); }

  // A process that runs `body`, whose output goes to a file of that name.
  Command function(const std::string& output, std::function<int()> body) {
    Command command;
    command.input = null_.get();
    command.output =
        outputs_.emplace_back(open(folder_.at(output).c_str(), O_CREAT | O_RDWR, 0600)).get();
    command.error = STDERR_FILENO;
    command.body = std::move(body);
    return command;
  }
  // Whether it was there before the limit.
  static std::optional<Event> next(Guardian& guardian) {
    std::optional<Event> event;
    eventually([&] {
      auto one = guardian.next();
      if (one.ok()) event = *one;
      return one.ok() || one.status().code() == StatusCode::kPeerLost;
    });
    return event;
  }
  // Starts all of them; the codes or signals of their ends, by their numbers.
  std::vector<int> endsOf(const std::vector<Command>& commands) {
    auto guardian = Guardian::create(commands, Inherited::current());
    EXPECT_TRUE(guardian.ok()) << guardian.status();
    guardian->send({Order::Kind::kStart});
    std::vector<int> ends(commands.size(), -1);
    for (std::size_t left = commands.size(); left > 0;) {
      const auto event = next(*guardian);
      if (!event || event->kind == Event::Kind::kNotStarted) break;
      if (event->kind == Event::Kind::kStarted) continue;
      ends[static_cast<std::size_t>(event->process)] = event->value;
      --left;
    }
    return ends;
  }

  const colla::Scratch folder_;
  const UniqueFd null_{open("/dev/null", O_RDWR | O_CLOEXEC)};
  std::vector<UniqueFd> outputs_;
};

TEST_F(GuardianTest, FunctionIsAProcessWithItsExitCode) {
  setenv("GUARDIAN_TEST", "inherited", 1);
  const pid_t own = getpid();
  const auto ends = endsOf({function("first",
                                     [own] {
                                       // What is buffered when it returns is written.
                                       std::printf("%s", std::getenv("GUARDIAN_TEST"));
                                       return getpid() == own ? 1 : 42;
                                     }),
                            function("second", [] {
                              raise(SIGKILL);
                              return 0;
                            })});
  unsetenv("GUARDIAN_TEST");
  EXPECT_THAT(ends, ElementsAre(42, SIGKILL));
  EXPECT_EQ(readText(folder_.at("first")), "inherited");
}

TEST_F(GuardianTest, FunctionHasNoOtherDescriptorOfItsParent) {
  const UniqueFd kept(open("/dev/null", O_RDONLY));  // Even exec would leave it open.
  const int number = kept.get();
  EXPECT_THAT(
      endsOf({function("out", [number] { return fcntl(number, F_GETFD) < 0 ? errno : 0; })}),
      ElementsAre(EBADF));
}

TEST_F(GuardianTest, FunctionLeadsAGroupThatSignalsReach) {
  const std::vector<Command> commands = {function("out", [] {
    while (true) pause();
    return 0;
  })};
  auto guardian = Guardian::create(commands, Inherited::current());
  ASSERT_TRUE(guardian.ok()) << guardian.status();
  guardian->send({Order::Kind::kStart});
  const auto started = next(*guardian);
  ASSERT_TRUE(started && started->kind == Event::Kind::kStarted);
  EXPECT_EQ(getpgid(started->value), started->value);
  guardian->send({Order::Kind::kSignal, SIGTERM});
  const auto ended = next(*guardian);
  ASSERT_TRUE(ended && ended->kind == Event::Kind::kKilled);
  EXPECT_EQ(ended->value, SIGTERM);
}

TEST_F(GuardianTest, ProcessRunsInTheNamespaceThatItsCommandNames) {
  int ready[2];
  ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
  const pid_t owner = fork();
  if (owner == 0) {
    const char made = unshare(CLONE_NEWNET) == 0 ? 'y' : 'n';
    (void)!write(ready[1], &made, 1);
    while (true) pause();
  }
  const UniqueFd told(ready[0]);
  close(ready[1]);
  char made = 'n';
  ASSERT_EQ(read(told.get(), &made, 1), 1);
  const std::string link = "/proc/" + std::to_string(owner) + "/ns/net";
  const UniqueFd network(made == 'y' ? open(link.c_str(), O_RDONLY | O_CLOEXEC) : -1);
  std::error_code ignored;
  const std::string theirs = std::filesystem::read_symlink(link, ignored);
  kill(owner, SIGKILL);
  waitpid(owner, nullptr, 0);
  if (made != 'y') GTEST_SKIP() << "network namespaces need root";

  const auto sayWhere = [] {
    std::error_code error;
    std::printf("%s", std::filesystem::read_symlink("/proc/self/ns/net", error).c_str());
    return 0;
  };
  std::vector<Command> commands = {function("there", sayWhere), function("here", sayWhere)};
  commands[0].networkNamespace = network.get();
  EXPECT_THAT(endsOf(commands), ElementsAre(0, 0));
  EXPECT_EQ(readText(folder_.at("there")), theirs);
  EXPECT_EQ(readText(folder_.at("here")), std::filesystem::read_symlink("/proc/self/ns/net"));
  EXPECT_NE(readText(folder_.at("here")), theirs);
}

TEST_F(GuardianTest, NamespaceThatIsNoneIsAnErrorOfTheStart) {
  std::vector<Command> commands = {function("out", [] { return 0; })};
  commands[0].networkNamespace = null_.get();
  auto guardian = Guardian::create(commands, Inherited::current());
  ASSERT_TRUE(guardian.ok()) << guardian.status();
  guardian->send({Order::Kind::kStart});
  const auto event = next(*guardian);
  ASSERT_TRUE(event && event->kind == Event::Kind::kNotStarted);
  EXPECT_EQ(event->value, EINVAL);
}

// Directories of a job are there as long as its processes, and not longer.
TEST_F(GuardianTest, DirectoriesGoWhenNothingOfTheJobIsLeft) {
  const std::string litter = folder_.at("litter");
  std::filesystem::create_directories(litter + "/deep");
  folder_.write("litter/deep/file", "text");
  const std::vector<Command> commands = {function("out", [] {
    while (true) pause();
    return 0;
  })};
  auto guardian = Guardian::create(commands, Inherited::current(), {litter});
  ASSERT_TRUE(guardian.ok()) << guardian.status();
  guardian->send({Order::Kind::kStart});
  ASSERT_TRUE(next(*guardian));
  EXPECT_TRUE(std::filesystem::exists(litter + "/deep/file"));
  guardian->send({Order::Kind::kEnd});
  const auto killed = next(*guardian);
  ASSERT_TRUE(killed);
  EXPECT_EQ(killed->kind, Event::Kind::kKilled);
  const auto ended = next(*guardian);
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->kind, Event::Kind::kEnded);
  EXPECT_FALSE(std::filesystem::exists(litter));
}

TEST_F(GuardianTest, ScratchHasPrivateDirectoriesThatGoWithIt) {
  setenv("TMPDIR", folder_.path().c_str(), 1);
  std::string inMemory;
  {
    const auto scratch = launch::Scratch::create();
    ASSERT_TRUE(scratch.ok()) << scratch.status();
    EXPECT_EQ(std::filesystem::path(scratch->directory()).parent_path(), folder_.path());
    const auto file = scratch->write("name", "text");
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(readText(*file), "text");
    inMemory = scratch->memoryDirectory();
    for (const std::string& directory : {scratch->directory(), inMemory}) {
      EXPECT_EQ(std::filesystem::status(directory).permissions(),
                std::filesystem::perms::owner_all);
    }
    EXPECT_EQ(scratch->directoryFor(1), inMemory);
    EXPECT_EQ(scratch->directoryFor(std::size_t{1} << 60), scratch->directory());
  }
  unsetenv("TMPDIR");
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
  EXPECT_FALSE(std::filesystem::exists(inMemory));
}

TEST_F(GuardianTest, ScratchGoesEvenIfItsOwnerIsKilled) {
  setenv("TMPDIR", folder_.path().c_str(), 1);
  int ready[2];
  ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
  const pid_t owner = fork();
  if (owner == 0) {
    const auto scratch = launch::Scratch::create();
    const char made = scratch.ok() && scratch->write("name", "text").ok() ? 'y' : 'n';
    (void)!write(ready[1], &made, 1);
    while (true) pause();
  }
  unsetenv("TMPDIR");
  const UniqueFd told(ready[0]);
  close(ready[1]);
  char made = 'n';
  ASSERT_EQ(read(told.get(), &made, 1), 1);
  EXPECT_EQ(made, 'y');
  EXPECT_FALSE(std::filesystem::is_empty(folder_.path()));
  kill(owner, SIGKILL);
  waitpid(owner, nullptr, 0);
  EXPECT_TRUE(eventually([&] { return std::filesystem::is_empty(folder_.path()); }));
}

}  // namespace
}  // namespace colla::launch
