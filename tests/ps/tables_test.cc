#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <regex>

#include "support/colla_process.h"

namespace colla {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using launch::Ended;

Ended run(std::vector<std::string> words) {
  words.insert(words.begin(), "run");
  return launch::runToEnd(words);
}

class TablesTest : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Staleness, TablesTest, ::testing::Values("0", "1", "3"));

// 3 workers, 5 clocks: each has added (1, 10) and (100, rank), and its rank + 1.
TEST_P(TablesTest, EveryChangeReachesEverybody) {
  const Ended ended = run({"-np", "3", "--ps", "2", "--", TABLES_PROGRAM, "add", GetParam()});
  EXPECT_EQ(ended.code, 0) << ended.err;
  for (const char* worker : {"worker 0", "worker 1", "worker 2"}) {
    EXPECT_THAT(ended.out, HasSubstr(worker + std::string(" read 15 150 1500 15 and 30")));
  }
  EXPECT_THAT(ended.out, Not(HasSubstr("missing")));
  EXPECT_THAT(ended.out, Not(HasSubstr("too far")));
}

TEST(TablesErrorTest, WhatIsWrongIsNamed) {
  const Ended ended = run({"-np", "1", "--ps", "1", "--", TABLES_PROGRAM, "wrong", "0"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("row 10 of table \"rows\", which has 10"));
  EXPECT_THAT(ended.out, HasSubstr("row -1 of table \"rows\""));
  EXPECT_THAT(ended.out, HasSubstr("3 numbers for rows of table \"rows\" that have 2"));
  EXPECT_THAT(ended.out, HasSubstr("\"rows\" is not finite in row 3"));
  EXPECT_THAT(ended.out, HasSubstr("row 3 has 5 6"));
}

// One of three is the server's own, the other two are its team's.
TEST(TablesErrorTest, ThreadsOfAServer) {
  const auto runWith = [](const std::string& threads) {
    return run({"-np", "1", "--ps", "1", "--server-threads", threads, "--", TABLES_PROGRAM,
                "threads", "0"});
  };
  const Ended three = runWith("3");
  EXPECT_EQ(three.code, 0) << three.err;
  EXPECT_THAT(three.out, HasSubstr("2 threads of the team have computed"));
  const Ended one = runWith("1");
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_THAT(one.out, HasSubstr("0 threads of the team have computed"));
  const Ended bad = runWith("-1");
  EXPECT_EQ(bad.code, 2);
  EXPECT_THAT(bad.err,
              HasSubstr("--server-threads is \"-1\", but takes a whole number from 0 to 4096"));
}

TEST(ServeTest, GoesOnThroughEpochsWithOtherWorkers) {
  const Ended ended =
      run({"-np", "3", "--ps", "2", "--slices", "6", "--", TABLES_PROGRAM, "epochs", "0"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  for (const char* worker : {"worker 0", "worker 1", "worker 2"}) {
    EXPECT_THAT(ended.out, HasSubstr(worker + std::string(" has -12 in epoch 0")));
    EXPECT_THAT(ended.out, HasSubstr(worker + std::string(" has -36 in epoch 2")));
  }
  for (const char* worker : {"worker 0", "worker 2"}) {
    EXPECT_THAT(ended.out, HasSubstr(worker + std::string(" has -24 in epoch 1")));
  }
  EXPECT_THAT(ended.out, Not(HasSubstr("worker 1 has -24")));
}

TEST(TablesErrorTest, WithoutServers) {
  const Ended ended = run({"-np", "2", "--", TABLES_PROGRAM, "add", "0"});
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.err, HasSubstr("colla run --ps 1"));
}

double lastNumber(const std::string& out, const std::string& after) {
  const std::regex pattern(after + " ([0-9.]+)");
  double number = -1;
  for (std::sregex_iterator it(out.begin(), out.end(), pattern), end; it != end; ++it) {
    number = std::stod((*it)[1]);
  }
  return number;
}

TEST(TablesExampleTest, FactorisationLearns) {
  const Ended ended = run({"-np", "2", "--ps", "1", "--", FACTORISATION, "20"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("epoch 20:"));
  const double error = lastNumber(ended.out, "error");
  EXPECT_GT(error, 0) << ended.out;
  EXPECT_LT(error, 0.2) << ended.out;  // Ratings have a deviation of about 1.
}

// Each process started by itself, its own arguments among the flags.
TEST(TablesExampleTest, FactorisationRunsWithoutALauncher) {
  // Ports only tell jobs apart here; tests that run side by side have lists of their own.
  const auto address = [](int number) {
    return "localhost:" + std::to_string(1024 + (getpid() * 16 + number) % 60000);
  };
  const auto start = [&](const std::string& job, const std::string& index) {
    return std::make_unique<launch::CollaProcess>(
        std::vector<std::string>{"2", "--ps_hosts", address(0), "--worker_hosts", address(1),
                                 address(2), "--job_name=" + job, "--task_index", index, "1"},
        launch::CollaProcess::Options{.program = FACTORISATION});
  };
  const auto worker1 = start("worker", "1");
  const auto server = start("ps", "0");
  const auto worker0 = start("worker", "0");
  for (auto* process : {worker0.get(), worker1.get(), server.get()}) {
    EXPECT_EQ(process->wait(), 0) << process->err();
  }
  EXPECT_THAT(worker0->out(), AllOf(HasSubstr("epoch 2:"), Not(HasSubstr("epoch 3:"))));
  EXPECT_EQ(worker1->out(), "");
  EXPECT_EQ(start("chief", "0")->wait(), 2);
}

TEST(TablesExampleTest, RegressionLearns) {
  const Ended ended = run({"-np", "2", "--ps", "1", "--", REGRESSION, "5", "1"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_GT(lastNumber(ended.out, "accuracy"), 0.95) << ended.out;
}

}  // namespace
}  // namespace colla
