// A program that owns its loop (own_loop.cc), with every strategy, as real processes.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <sstream>

#include "support/colla_process.h"

namespace colla::train {
namespace {

using ::testing::HasSubstr;

struct Said {
  int exitCode = 0;
  std::string errors;
  std::map<int, std::vector<double>> parameters;  // By worker.
  std::map<int, std::map<std::string, double>> counted;
};

// The program under `colla run WORDS`, to its end.
Said runLoop(const std::string& words, const std::string& program) {
  std::vector<std::string> arguments = {"run", "--slices", "4"};
  std::istringstream each(words);
  for (std::string word; each >> word;) arguments.push_back(word);
  arguments.insert(arguments.end(), {"--", COLLA_OWN_LOOP});
  std::istringstream own(program);
  for (std::string word; own >> word;) arguments.push_back(word);
  const launch::Ended ended = launch::runToEnd(arguments);
  Said said;
  said.exitCode = ended.code;
  said.errors = ended.err;
  std::istringstream lines(ended.out);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t begin = line.rfind("worker ");
    if (begin == std::string::npos) continue;
    std::istringstream text(line.substr(begin));
    std::string word, what;
    int worker = 0;
    text >> word >> worker >> what;
    if (what == "parameters") {
      for (double value = 0; text >> value;) said.parameters[worker].push_back(value);
      continue;
    }
    for (double value = 0; text >> value; text >> what) said.counted[worker][what] = value;
  }
  return said;
}

// The same on every worker.
std::vector<double> common(const Said& said, int workers) {
  EXPECT_EQ(said.exitCode, 0) << said.errors;
  EXPECT_EQ(static_cast<int>(said.parameters.size()), workers) << said.errors;
  for (const auto& [worker, values] : said.parameters) {
    EXPECT_EQ(values, said.parameters.begin()->second) << "worker " << worker;
  }
  return said.parameters.empty() ? std::vector<double>() : said.parameters.begin()->second;
}

double farthest(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double most = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    most = std::max(most, std::abs(a[i] - b[i]));
  }
  return most;
}

TEST(OwnLoopTest, ServersThatWaitForAllGiveTheBitsOfAnAllreduce) {
  const std::vector<double> expected = common(runLoop("-np 2", "allreduce"), 2);
  EXPECT_EQ(expected, common(runLoop("-np 1", "allreduce"), 1));
  for (const std::string servers : {"1", "2"}) {
    EXPECT_EQ(expected, common(runLoop("-np 2 --ps " + servers, "ps-sync"), 2));
  }
  EXPECT_EQ(expected, common(runLoop("-np 2 --ps 1", "ps-ssp"), 2));
}

TEST(OwnLoopTest, ServersHoldTables) {
  const std::vector<double> expected = common(runLoop("-np 1 --ps 1", "ps-sync table"), 1);
  EXPECT_EQ(expected, common(runLoop("-np 2 --ps 2", "ps-sync table"), 2));
}

// One worker's gradients have nobody to come before or after.
TEST(OwnLoopTest, AsynchronousServersTakeEveryStep) {
  EXPECT_EQ(common(runLoop("-np 1", "allreduce"), 1),
            common(runLoop("-np 1 --ps 1", "ps-async"), 1));
  const Said two = runLoop("-np 2 --ps 1", "ps-async steps=20");
  EXPECT_EQ(two.exitCode, 0) << two.errors;
  for (const auto& [worker, counted] : two.counted) EXPECT_EQ(counted.at("steps"), 20) << worker;
}

TEST(OwnLoopTest, LocalSgdAverages) {
  const std::vector<double> expected = common(runLoop("-np 2", "allreduce"), 2);
  EXPECT_LT(farthest(expected, common(runLoop("-np 2", "local-sgd every=1"), 2)), 1e-5);
  // Two steps after an average the workers are apart, until they average.
  const Said apart = runLoop("-np 2", "local-sgd every=3");
  EXPECT_EQ(apart.exitCode, 0) << apart.errors;
  EXPECT_NE(apart.parameters.at(0), apart.parameters.at(1));
  const std::vector<double> averaged = common(runLoop("-np 2", "local-sgd every=3 average"), 2);
  EXPECT_GT(farthest(expected, averaged), 1e-6) << "the test can't tell";
}

// Rank 0's parameters count, although the optimizer's state was broadcast before them.
TEST(OwnLoopTest, StateMayBeBroadcastBeforeParameters) {
  for (const std::string strategy : {"allreduce", "local-sgd every=2 average"}) {
    EXPECT_EQ(common(runLoop("-np 2", strategy), 2),
              common(runLoop("-np 2", strategy + " state-first"), 2));
  }
}

TEST(OwnLoopTest, StateIsNotBroadcastWhileWorkersAreApart) {
  const Said said = runLoop("-np 2", "local-sgd every=3 apart");
  EXPECT_NE(said.exitCode, 0);
  EXPECT_THAT(said.errors, HasSubstr("average() comes first"));
}

TEST(OwnLoopTest, WhatCannotBeIsSaidInOneLine) {
  EXPECT_THAT(runLoop("-np 2 --ps 1", "hybrid table").errors,
              HasSubstr("hybrid is for the Trainer"));
  EXPECT_THAT(runLoop("-np 2", "ps-sync").errors,
              HasSubstr("strategy ps-sync needs parameter servers: start the job with colla run"));
  EXPECT_THAT(runLoop("-np 2 --ps 1", "ps-sync every=2").errors,
              HasSubstr("--every is for --strategy local-sgd, not ps-sync"));
}

// Of each step, on every worker alike.
double exchangedBy(const Said& said, int workers) {
  EXPECT_EQ(said.exitCode, 0) << said.errors;
  EXPECT_EQ(static_cast<int>(said.counted.size()), workers) << said.errors;
  double bytes = 0;
  for (const auto& [worker, counted] : said.counted) {
    EXPECT_EQ(counted.at("steps"), 5) << worker;
    EXPECT_EQ(counted.at("samples"), 5 * 4 * 4 / workers) << worker;
    bytes = (counted.at("hidden") + counted.at("exposed")) / 5;
  }
  return bytes;
}

// 18 parameters in float32, whose two tensors begin at whole cache lines, beside a few flags.
TEST(OwnLoopTest, CountsStepsSamplesAndWhatWasExchanged) {
  constexpr double kLeast = 18 * 4;
  constexpr double kMost = kLeast + 3 * 64;
  for (const auto& [words, program] : {std::pair{"-np 2", "allreduce"},
                                       {"-np 2 --ps 1", "ps-sync"},
                                       {"-np 2", "local-sgd every=1"}}) {
    const double bytes = exchangedBy(runLoop(words, program), 2);
    EXPECT_GE(bytes, kLeast) << program;
    EXPECT_LE(bytes, kMost) << program;
  }
  EXPECT_EQ(exchangedBy(runLoop("-np 1", "allreduce"), 1), 0);
}

// Two slices of a worker look up two rows each, of which they share one. A row is its number and
// five floats; the table has a thousand.
TEST(OwnLoopTest, OfATableOnlyTheTouchedRowsTravelToServers) {
  const double without = exchangedBy(runLoop("-np 2 --ps 1", "ps-sync"), 2);
  const double with = exchangedBy(runLoop("-np 2 --ps 1", "ps-sync table"), 2);
  EXPECT_EQ(with - without, 3 * (8 + 5 * 4));
}

}  // namespace
}  // namespace colla::train
