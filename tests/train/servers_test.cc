// Strategies with parameter servers: real processes, and what they leave and tell.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "checkpoint/source.h"
#include "train/runs.h"

namespace colla::train {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Le;

class ServersTest : public ::testing::Test {
 protected:
  // Trains in a directory of its own, which it returns.
  std::string train(const std::string& model, const Words& words) {
    const std::string directory = scratch_.at("run" + std::to_string(runs_++));
    last_ = runProgram(joined(smallRun(model, directory, {"--no-eval"}), words));
    EXPECT_EQ(last_.code, 0) << last_.err;
    return directory;
  }
  // The same, and the last line of --json.
  std::string totalsOf(const std::string& model, const Words& words) {
    const std::string path = scratch_.at("steps.json");
    train(model, joined(words, {"--json", path}));
    std::ifstream file(path);
    std::string last;
    for (std::string line; std::getline(file, line);) last = line;
    return last;
  }

  const Scratch scratch_;
  int runs_ = 0;
  Ended last_;
};

const Words kEveryStep = {"--steps", "14", "--save-every", "1", "--keep", "all"};

class ServerBitsTest : public ServersTest, public ::testing::WithParamInterface<std::string> {};

// Adam with dropout; BatchNorm with momentum; a table of rows with Adam. The 13th step has fewer
// samples than slices.
TEST_P(ServerBitsTest, AreThoseOfASingleProcess) {
  const Words clipped = joined(kEveryStep, {"--clip-norm", "1.5"});
  const std::string single = train(GetParam(), joined(clipped, {"--strategy", "single"}));
  std::vector<Words> others = {
      {"--strategy", "ps-sync", "--np", "1", "--ps", "1"},
      {"--strategy", "ps-sync", "--np", "3", "--ps", "2"},
      {"--strategy", "ps-ssp", "--np", "2", "--staleness", "0"},
      {"--strategy", "hybrid", "--np", "2", "--ps", "1"},
  };
  if (GetParam() == "table") {
    others.push_back({"--strategy", "allreduce", "--np", "2"});
    others.push_back({"--strategy", "hybrid", "--np", "3", "--ps", "2", "--partitions", "5"});
    others.push_back({"--strategy", "hybrid", "--np", "2", "--ps", "2", "--partitions", "auto"});
  }
  for (const Words& words : others) {
    const std::string other = train(GetParam(), joined(clipped, words));
    for (int step = 0; step <= 14; ++step) {
      ASSERT_EQ(differencesAt(single, other, step), "") << ::testing::PrintToString(words);
    }
  }
}

TEST_P(ServerBitsTest, HoldAcrossAResume) {
  const std::string whole =
      train(GetParam(), {"--steps", "14", "--strategy", "ps-sync", "--np", "2"});
  const std::string strategy = GetParam() == "table" ? "hybrid" : "allreduce";
  for (const auto& [before, after] : std::vector<std::pair<Words, Words>>{
           {{"--strategy", "ps-sync", "--np", "2", "--ps", "2"}, {"--strategy", "single"}},
           {{"--strategy", strategy, "--np", "2"}, {"--strategy", "ps-sync", "--np", "3"}},
           {{"--strategy", "ps-ssp", "--np", "2"}, {"--strategy", strategy, "--np", "2"}}}) {
    const std::string directory = train(GetParam(), joined({"--steps", "7"}, before));
    last_ = runProgram(joined(smallRun(GetParam(), directory, {"--no-eval"}),
                              joined({"--steps", "14", "--resume"}, after)));
    EXPECT_EQ(last_.code, 0) << last_.err;
    EXPECT_EQ(differencesAt(whole, directory, 14), "") << ::testing::PrintToString(after);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ServerBitsTest, ::testing::Values("mlp", "conv", "table"),
                         [](const auto& test) { return test.param; });

TEST_F(ServersTest, AsyncMakesAsManyUpdatesAsWantedAndTellsTheirStaleness) {
  const std::string directory =
      train("table", {"--strategy", "ps-async", "--np", "3", "--ps", "2", "--steps", "25"});
  EXPECT_THAT(last_.err, HasSubstr("25 gradients taken, 0 dropped"));
  EXPECT_THAT(last_.err, HasSubstr("; their staleness in updates, and how often: 0: "));
  EXPECT_TRUE(checkpoint::Source::open(directory + "@25").ok());
}

// Contract: checkpoints are of the step that --save-every names, although the servers go on while
// worker 0 computes. The save before it is over by then: it has 80 steps of time.
TEST_F(ServersTest, AsyncSavesAtTheStepsThatAreDue) {
  for (const Words& how : {Words{"--strategy", "ps-async", "--np", "3", "--ps", "2"},
                           Words{"--strategy", "ps-ssp", "--staleness", "3", "--np", "3"}}) {
    const std::string directory = train("conv", joined(how, {"--steps", "100", "--save-every", "80",
                                                             "--keep", "all", "--clip-norm", "1"}));
    EXPECT_THAT(stepsIn(directory), ElementsAre(Le(1), 80, 100));
    EXPECT_TRUE(checkpoint::Source::open(directory + "@80").ok());
  }
}

TEST_F(ServersTest, AsyncRefusesWhatIsTooOld) {
  train("mlp", {"--strategy", "ps-async", "--np", "3", "--max-staleness", "0", "--steps", "25"});
  EXPECT_THAT(last_.err, AllOf(HasSubstr("25 gradients taken"), HasSubstr("how often: 0: 25\n")));
}

TEST_F(ServersTest, AnEpochOfAsyncHasAnUpdateForEveryWorkersShare) {
  // 13 batches of 4 slices; the last has 2 samples, so two of the slices have none.
  const std::string directory = train("mlp", {"--strategy", "ps-async", "--np", "4"});
  EXPECT_THAT(last_.err, HasSubstr("50 gradients taken"));
  EXPECT_TRUE(checkpoint::Source::open(directory + "@50").ok());
}

// Not worker 0's alone.
TEST_F(ServersTest, SamplesAreThoseOfAllWorkers) {
  for (const Words& words : {Words{"--strategy", "ps-async", "--np", "3"},
                             Words{"--strategy", "ps-ssp", "--staleness", "2", "--np", "2"},
                             Words{"--strategy", "ps-ssp", "--np", "2"}}) {
    EXPECT_THAT(totalsOf("mlp", words), HasSubstr("\"samples\":602,"));
  }
}

TEST_F(ServersTest, SspHoldsAWorkerBack) {
  train("mlp", {"--strategy", "ps-ssp", "--np", "2", "--staleness", "3", "--steps", "20"});
  EXPECT_THAT(last_.err, HasSubstr("20 gradients taken"));
}

TEST_F(ServersTest, RequeuedSamplesAreAllTrained) {
  const std::string totals = totalsOf("mlp", {"--strategy", "ps-sync", "--np", "3", "--backup", "1",
                                              "--requeue-dropped", "--epochs", "2"});
  const auto statistics = last_.err.find("gradients taken");
  ASSERT_NE(statistics, std::string::npos) << last_.err;
  // Each of three workers brings each of its 13 batches of two epochs once, however often some were
  // dropped before.
  EXPECT_THAT(last_.err, HasSubstr("78 gradients taken")) << last_.err;
  EXPECT_THAT(totals, HasSubstr("\"samples\":1204,"));
}

// In each step all meet for the allreduce, then one comes third to the servers.
TEST_F(ServersTest, HybridTakesBackupWorkersForItsServers) {
  const std::string totals =
      totalsOf("table", {"--strategy", "hybrid", "--np", "3", "--ps", "2", "--backup", "1",
                         "--clip-norm", "1.5", "--steps", "12"});
  EXPECT_THAT(last_.err, HasSubstr("24 gradients taken, 12 dropped"));
  EXPECT_THAT(last_.err, HasSubstr("for step 12: their staleness is 1"));
  EXPECT_THAT(totals, HasSubstr("\"samples\":600,"));
}

// Adam moves rows of which a whole gradient says nothing; of rows it leaves them alone.
TEST_F(ServersTest, SparseAsDenseIsAnotherOptimizerInEveryStrategyAlike) {
  const Words run = {"--steps", "6", "--strategy"};
  const std::string rows = train("table", joined(run, {"single"}));
  const std::string whole = train("table", joined(run, {"single", "--sparse-as-dense"}));
  EXPECT_THAT(differencesAt(rows, whole, 6), HasSubstr("table.weight"));
  for (const std::string strategy : {"allreduce", "ps-sync"}) {
    const std::string other =
        train("table", joined(run, {strategy, "--np", "2", "--sparse-as-dense"}));
    EXPECT_EQ(differencesAt(whole, other, 6), "") << strategy;
  }
}

struct AutoCase {
  std::string model;
  Words words;
  std::string route;
};

// Where a table goes depends on the rows that are read and on who there is, and no bit on that:
// Adam's state of a row that nobody touched stays, clipping sees the same norm.
TEST_F(ServersTest, HybridAutoSaysWhereTablesGoAndKeepsTheBits) {
  const std::vector<AutoCase> cases = {
      {"table", {"--np", "4", "--ps", "3"}, "servers"},
      {"table", {"--np", "2", "--ps", "1"}, "allreduce of rows"},
      {"full-table", {"--np", "3", "--ps", "1"}, "allreduce of the whole table"},
  };
  const Words run = {"--steps", "6", "--save-every", "1", "--keep", "all", "--clip-norm", "1.5"};
  for (const AutoCase& one : cases) {
    const std::string single = train(one.model, joined(run, {"--strategy", "single"}));
    const Words words = joined({"--strategy", "hybrid", "--hybrid", "auto"}, one.words);
    const std::string chosen = train(one.model, joined(run, words));
    EXPECT_THAT(last_.err, HasSubstr("table \"table.weight\": " + one.route +
                                     "; a worker's step "
                                     "reads"));
    for (int step = 0; step <= 6; ++step) {
      ASSERT_EQ(differencesAt(single, chosen, step), "") << one.route;
    }
  }
}

TEST_F(ServersTest, PartitionsAreFoundByTryingThem) {
  train("table", {"--strategy", "ps-sync", "--np", "2", "--ps", "2", "--partitions", "auto",
                  "--steps", "3"});
  EXPECT_THAT(last_.err, AllOf(HasSubstr(" partitions of each table: pulls and pushes"),
                               HasSubstr("took, by partitions, 2: ")));
}

TEST_F(ServersTest, WhatMakesNoSenseIsRefused) {
  const auto refused = [&](const Words& words) {
    const Ended ended = runProgram(joined(smallRun("mlp", scratch_.at("x"), {}), words));
    EXPECT_EQ(ended.code, 2) << ended.err;
    return ended.err;
  };
  EXPECT_THAT(refused({"--strategy", "ps-sync", "--np", "2", "--backup", "2"}),
              HasSubstr("--backup is 2"));
  EXPECT_THAT(refused({"--strategy", "allreduce", "--np", "2", "--backup", "1"}),
              HasSubstr("--backup is for --strategy ps-sync"));
  EXPECT_THAT(refused({"--strategy", "ps-sync", "--np", "2", "--staleness", "1"}),
              HasSubstr("--staleness is for --strategy ps-ssp"));
  EXPECT_THAT(refused({"--strategy", "ps-sync", "--np", "2", "--max-staleness", "1"}),
              HasSubstr("--max-staleness is for"));
  EXPECT_THAT(refused({"--np", "2", "--ps", "1"}), HasSubstr("--ps is for"));
  EXPECT_THAT(refused({"--strategy", "allreduce", "--np", "2", "--hybrid", "auto"}),
              HasSubstr("--hybrid is for --strategy hybrid"));
  EXPECT_THAT(refused({"--strategy", "hybrid", "--np", "2", "--hybrid", "some"}),
              HasSubstr("--hybrid is \"some\", but takes servers or auto"));
  EXPECT_THAT(refused({"--strategy", "hybrid", "--np", "2", "--partitions", "0"}),
              HasSubstr("--partitions is \"0\""));
  EXPECT_THAT(refused({"--strategy", "allreduce", "--np", "2", "--partitions", "auto"}),
              HasSubstr("--partitions is for"));
  EXPECT_THAT(refused({"--strategy", "ps-sync", "--np", "2", "--ps", "0"}), HasSubstr("--ps is 0"));
  EXPECT_THAT(refused({"--strategy", "ps-sync", "--np", "2", "--backup", "some"}),
              HasSubstr("\"some\""));
  EXPECT_THAT(refused({"--strategy", "ps-sync", "--np", "3", "--replicas-to-aggregate", "4"}),
              HasSubstr("--replicas-to-aggregate is 4"));
  EXPECT_THAT(refused({"--strategy", "ps-async", "--np", "2", "--sync_replicas"}),
              HasSubstr("--sync-replicas is for --strategy ps-sync, not ps-async"));
}

// Its bits are ServerBitsTest's.
TEST_F(ServersTest, HybridWithoutATableRunsAsAllreduceAndSaysSoOnce) {
  train("mlp", {"--strategy", "hybrid", "--hybrid", "auto", "--partitions", "auto", "--np", "2",
                "--ps", "2", "--steps", "2"});
  const std::string note =
      "has no tables with sparse gradients for servers: --strategy hybrid runs";
  const auto found = last_.err.find(note);
  ASSERT_NE(found, std::string::npos) << last_.err;
  EXPECT_EQ(last_.err.find(note, found + 1), std::string::npos) << last_.err;
}

// Not once for each worker, and without the launcher's report of processes that failed.
TEST_F(ServersTest, AnOptimizerThatServersCannotRunIsRefusedBeforeAnyWorkerStarts) {
  for (const std::string strategy : {"ps-sync", "ps-async", "ps-ssp", "hybrid"}) {
    const Ended ended = runProgram(joined(smallRun("signs", scratch_.at("x"), {}),
                                          {"--strategy", strategy, "--np", "2", "--steps", "2"}));
    EXPECT_EQ(ended.code, 2) << ended.err;
    EXPECT_THAT(ended.err,
                HasSubstr("servers run Colla's optimizers, but the program brings its own"));
    EXPECT_EQ(std::ranges::count(ended.err, '\n'), 1) << ended.err;
  }
}

TEST_F(ServersTest, TensorFlowsNamesWork) {
  train("mlp", {"--strategy", "ps-sync", "--total_num_replicas", "3", "--replicas_to_aggregate",
                "2", "--steps", "6"});
  EXPECT_THAT(last_.err, HasSubstr("3 workers"));
  train("mlp", {"--sync_replicas", "--np", "2", "--steps", "2"});
  EXPECT_THAT(last_.err, HasSubstr("strategy ps-sync, 2 workers, 1 server"));
}

}  // namespace
}  // namespace colla::train
