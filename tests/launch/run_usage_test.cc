// Command lines, good and bad.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <tuple>

#include "support/colla_process.h"
#include "support/scratch.h"

namespace colla::launch {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Usage {
  const char* what;
  std::vector<std::string> arguments;
  int exitCode;
  const char* says;  // On standard error, in its only line.
};

class RunUsage : public ::testing::TestWithParam<Usage> {};

TEST_P(RunUsage, SaysWhatIsWrongInOneLine) {
  CollaProcess colla(GetParam().arguments);
  EXPECT_EQ(colla.wait(), GetParam().exitCode);
  EXPECT_THAT(colla.err(), HasSubstr(GetParam().says));
  EXPECT_EQ(std::ranges::count(colla.err(), '\n'), 1) << colla.err();
  EXPECT_EQ(colla.out(), "");
}

INSTANTIATE_TEST_SUITE_P(
    All, RunUsage,
    ::testing::Values(
        Usage{"NoCommand", {}, 2, "no command given"},
        Usage{"UnknownCommand", {"rnu"}, 2, "there is no command \"rnu\"; did you mean run?"},
        Usage{"NoWorkers", {"run", "true"}, 2, "--np is required"},
        Usage{"ZeroWorkers", {"run", "-np", "0", "true"}, 2, "-np is 0"},
        Usage{"NegativeWorkers", {"run", "-np", "-3", "true"}, 2, "-np is -3"},
        Usage{"AbsurdWorkers", {"run", "-np", "1000000", "true"}, 2, "more than the 4096"},
        Usage{"OverflowingWorkers", {"run", "-np", "99999999999", "true"}, 2, "99999999999"},
        Usage{"TextWorkers", {"run", "--np", "two", "true"}, 2, "two"},
        Usage{"UnknownFlag",
              {"run", "-np", "1", "--tranport", "shm", "true"},
              2,
              "--tranport; did you mean --transport?"},
        Usage{"SpareAll",
              {"run", "-np", "2", "--spare-workers", "2", "true"},
              2,
              "--spare-workers is 2, but must be from 0 to 1"},
        Usage{"SpareNegative", {"run", "-np", "2", "--spare-workers", "-1", "true"}, 2, "is -1"},
        Usage{"UnknownStrategy",
              {"run", "-np", "1", "--strategy", "hybird", "true"},
              2,
              "; did you mean hybrid?"},
        Usage{"UnknownHelp", {"help", "rnu"}, 2, "there is no command \"rnu\"; did you mean run?"},
        Usage{"FlagBeforeWorkers", {"run", "--nump", "2", "true"}, 2, "there is no flag --nump"},
        Usage{"NoProgram", {"run", "-np", "2"}, 2, "no program given"},
        Usage{"BadEnvironment", {"run", "-np", "1", "--env", "X", "true"}, 2, "NAME=VALUE"},
        Usage{
            "PlaceVariable", {"run", "-np", "1", "--env", "COLLA_RANK=1", "true"}, 2, "COLLA_RANK"},
        Usage{"ZeroTimeout", {"run", "-np", "1", "--timeout", "0", "true"}, 2, "--timeout is 0"},
        Usage{"NoSettingsFile",
              {"run", "-np", "1", "--config", "/nonexistent/colla.toml", "true"},
              2,
              "settings file /nonexistent/colla.toml cannot be read: No such file or directory"},
        Usage{"BadSetting", {"run", "-np", "1", "--spin-us", "x", "true"}, 2, "--spin-us is \"x\""},
        Usage{"UnknownTransport",
              {"run", "-np", "2", "--transport", "pigeon", "true"},
              2,
              "--transport is \"pigeon\", but takes auto, shm, tcp, tcp-plain or ucx"},
        Usage{"UnknownAlgorithm",
              {"run", "-np", "2", "--algorithm", "fastest", "true"},
              2,
              "--algorithm is \"fastest\", but takes auto, shared,"},
        Usage{"UnknownLevel",
              {"run", "-np", "2", "--log", "loud", "true"},
              2,
              "--log is \"loud\", but takes debug, info, warn, error or off"},
        Usage{"TooManyConnections",
              {"run", "-np", "2", "--tcp-connections", "99", "true"},
              2,
              "--tcp-connections is \"99\", but takes a whole number from 1 to 16"},
        Usage{"NegativeThreads",
              {"run", "-np", "2", "--threads", "-5", "true"},
              2,
              "--threads is \"-5\", but takes a whole number from 0 to 4096"},
        Usage{"HorovodFlag",
              {"horovodrun", "-np", "2", "--fusion-threshold-mb", "-1", "true"},
              2,
              "--fusion-threshold-mb is \"-1\", but takes a whole number"},
        Usage{"NoConfig",
              {"run", "-np", "1", "--config", "/nowhere.toml", "true"},
              2,
              "/nowhere.toml"},
        Usage{"NotFound", {"run", "-np", "2", "--", "no-such-program"}, 127, "no-such-program"},
        Usage{"NotExecutable", {"run", "-np", "2", "--", "/etc/passwd"}, 126, "not executable"},
        Usage{"SettingsWithExtra", {"settings", "extra"}, 2, "extra"}),
    [](const auto& usage) { return std::string(usage.param.what); });

TEST(RunUsageGood, UnderscoresShortFlagsAndNoDashes) {
  CollaProcess colla({"run", "-n", "1", "--spin_us=7", "/bin/sh", "-c", "echo $COLLA_SPIN_US $0 $1",
                      "--a_b", "-np"});
  EXPECT_EQ(colla.wait(), 0) << colla.err();
  EXPECT_EQ(colla.out(), "[worker 0] 7 --a_b -np\n");
}

TEST(RunUsageGood, SettingsComeFromFlagsAndTheFile) {
  const std::string file = ::testing::TempDir() + "launch-" + std::to_string(getpid()) + ".toml";
  std::ofstream(file) << "spin_us = 5\nlog = \"warn\"\n";
  CollaProcess colla({"run", "-np", "1", "--config", file, "--log", "error", "--", "/bin/sh", "-c",
                      "echo $COLLA_SPIN_US $COLLA_LOG ${COLLA_CONFIG-none}"});
  EXPECT_EQ(colla.wait(), 0) << colla.err();
  EXPECT_EQ(colla.out(), "[worker 0] 5 error none\n");
  std::filesystem::remove(file);
}

// Before anything is started, whoever said it.
TEST(RunUsageBad, VariablesAreCheckedAsWell) {
  for (const char* command : {"run -np 2 true", "settings"}) {
    std::istringstream words(command);
    const std::vector<std::string> arguments{std::istream_iterator<std::string>(words), {}};
    CollaProcess colla(arguments, {.wrapper = "COLLA_TRANSPORT=pigeon exec \"$@\""});
    EXPECT_EQ(colla.wait(), 2);
    EXPECT_THAT(colla.err(), HasSubstr("COLLA_TRANSPORT is \"pigeon\", but takes auto"));
    EXPECT_EQ(std::ranges::count(colla.err(), '\n'), 1) << colla.err();
  }
}

TEST(RunUsageBad, SettingsForTheProcessesAreCheckedAsWell) {
  for (const auto& [given, says] :
       {std::pair("COLLA_LOG=loud", "COLLA_LOG is \"loud\", but takes"),
        std::pair("COLLA_TCP_CONNECTIONS=99", "COLLA_TCP_CONNECTIONS is \"99\"")}) {
    CollaProcess colla({"run", "-np", "2", "--env", given, "--", "/bin/sh", "-c", "echo started"});
    EXPECT_EQ(colla.wait(), 2) << given;
    EXPECT_THAT(colla.err(), AllOf(HasSubstr("--env"), HasSubstr(says)));
    EXPECT_EQ(std::ranges::count(colla.err(), '\n'), 1) << colla.err();
    EXPECT_EQ(colla.out(), "");
  }
  // The last of a name counts, and names of others are theirs.
  CollaProcess colla({"run", "-np", "1", "--env", "COLLA_LOG=loud", "--env", "COLLA_LOG=warn",
                      "--env", "COLLA_OF_MINE=loud", "--", "/bin/sh", "-c", "echo $COLLA_LOG"});
  EXPECT_EQ(colla.wait(), 0) << colla.err();
  EXPECT_EQ(colla.out(), "[worker 0] warn\n");
}

// A job on one host does not need it, but a secret that others can read is found out now.
TEST(RunUsageBad, ASecretThatIsNoneIsRefusedOnOneHostToo) {
  const Scratch folder;
  const std::string file = folder.write("secret", std::string(40, 's'));
  const auto refusal = [&] {
    CollaProcess colla({"run", "-np", "2", "--secret-file", file, "--", "/bin/echo", "started"});
    EXPECT_EQ(colla.wait(), 2);
    EXPECT_EQ(colla.out(), "");
    EXPECT_EQ(std::ranges::count(colla.err(), '\n'), 1) << colla.err();
    return colla.err();
  };
  std::filesystem::permissions(file, std::filesystem::perms{0644});
  EXPECT_THAT(refusal(), HasSubstr(file + " can be read or written by others; run `chmod 600`"));
  std::filesystem::permissions(file, std::filesystem::perms{0600});
  std::ofstream(file) << "short";
  EXPECT_THAT(refusal(), HasSubstr(file + " has 5 bytes, which is too short"));
  std::filesystem::remove(file);
  EXPECT_THAT(refusal(), HasSubstr(file + " cannot be read: No such file or directory"));
  // A program that is alone does without it as well.
  CollaProcess alone(
      {"barrier", "1", "0", "20000"},
      {.program = COLLA_JOB_MEMBER, .wrapper = "COLLA_SECRET_FILE=" + file + " exec \"$@\""});
  EXPECT_EQ(alone.wait(), 1);
  EXPECT_THAT(alone.out(), HasSubstr(file + " cannot be read"));
}

TEST(RunUsageBad, TooFewOpenFilesAreOneLine) {
  for (const auto& [limit, processes, needed] :
       {std::tuple(12, "2", "24"), std::tuple(23, "2", "24"), std::tuple(200, "100", "416")}) {
    CollaProcess colla({"run", "-np", processes, "--", "/bin/echo", "started"},
                       {.wrapper = fmt::format("ulimit -n {}; exec \"$@\"", limit)});
    EXPECT_EQ(colla.wait(), 1);
    EXPECT_EQ(colla.err(), fmt::format("colla run: `ulimit -n` is {}, but a job of {} processes "
                                       "needs {} open files: raise it\n",
                                       limit, processes, needed));
    EXPECT_EQ(colla.out(), "");
  }
  // With so many it works, and workers may have as few of their own.
  CollaProcess colla({"run", "-np", "2", "--", COLLA_JOB_MEMBER, "barrier", "1", "0", "20000"},
                     {.wrapper = "ulimit -Sn 20; ulimit -Hn 24; exec \"$@\""});
  EXPECT_EQ(colla.wait(), 0) << colla.out() << colla.err();
}

// In a network namespace of its own, which has two ports: rank by rank takes one.
TEST(RunUsageGood, NoFreePortIsOneLine) {
  if (std::system("unshare --net true 2>/dev/null") != 0) GTEST_SKIP() << "no right to make one";
  CollaProcess colla(
      {"run", "-np", "3", "--transport", "tcp", "--", COLLA_JOB_MEMBER, "barrier", "1", "0",
       "20000"},
      {.wrapper = "exec unshare --net -- /bin/sh -c 'ip link set lo up && echo 50000 "
                  "50001 >/proc/sys/net/ipv4/ip_local_port_range && exec \"$@\"' sh "
                  "\"$@\""});
  EXPECT_EQ(colla.wait(), 1) << colla.out();
  EXPECT_THAT(colla.out(), HasSubstr("no free port on 127.0.0.1: all that "
                                     "net.ipv4.ip_local_port_range allows are in use\n"));
  EXPECT_EQ(std::ranges::count(colla.out(), '\n'), 1) << colla.out();
}

TEST(RunUsageGood, InterpreterThatIsMissing) {
  const std::string script = ::testing::TempDir() + "launch-" + std::to_string(getpid()) + ".sh";
  std::ofstream(script) << "#!/no/such/interpreter\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  CollaProcess colla({"run", "-np", "2", "--", script});
  EXPECT_EQ(colla.wait(), 127);
  EXPECT_THAT(colla.err(), AllOf(HasSubstr("cannot start worker 0"), HasSubstr("interpreter")));
  EXPECT_TRUE(colla.gone());
  std::ofstream(script) << "echo \"$1\"\n";  // Without a first line: the shell's.
  CollaProcess plain({"run", "-np", "1", "--", script, "hello"});
  EXPECT_EQ(plain.wait(), 0) << plain.err();
  EXPECT_EQ(plain.out(), "[worker 0] hello\n");
  std::filesystem::remove(script);
}

TEST(Colla, OverviewVersionAndSettings) {
  CollaProcess help({"--help"});
  EXPECT_EQ(help.wait(), 0);
  EXPECT_THAT(help.out(), AllOf(HasSubstr("colla run -np 2"), HasSubstr("settings")));
  CollaProcess version({"--version"});
  EXPECT_EQ(version.wait(), 0);
  EXPECT_THAT(version.out(), AllOf(HasSubstr("colla 0."), HasSubstr("transports:")));
  CollaProcess run({"run", "--help"});
  EXPECT_EQ(run.wait(), 0);
  EXPECT_THAT(run.out(), AllOf(HasSubstr("126 for"), HasSubstr("127 for"), HasSubstr("--threads N"),
                               HasSubstr("--start-timeout SECONDS")));
  CollaProcess helpRun({"help", "run"});
  EXPECT_EQ(helpRun.wait(), 0);
  EXPECT_EQ(helpRun.out(), run.out());
  CollaProcess settings({"settings"}, {.wrapper = "COLLA_SPIN_US=77 COLLA_SPINUS=7 exec \"$@\""});
  EXPECT_EQ(settings.wait(), 0);
  EXPECT_THAT(settings.err(), HasSubstr("COLLA_SPINUS is set, but nothing reads it"));
  EXPECT_THAT(settings.out(), ::testing::ContainsRegex("spin_us +-1 +77 +COLLA_SPIN_US"));
}

}  // namespace
}  // namespace colla::launch
