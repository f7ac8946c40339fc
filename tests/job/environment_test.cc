#include "job/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <set>

#include "job/slurm.h"
#include "job/variables.h"

namespace colla::job {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Variables with(Variables base, const Variables& more) {
  for (const auto& [name, value] : more) base[name] = value;
  return base;
}
Variables without(Variables base, const std::string& name) {
  base.erase(name);
  return base;
}

Place samplePlace() {
  Place place;
  place.role = Role::kServer;
  place.rank = 1;
  place.size = 4;
  place.servers = 2;
  place.localRank = 1;
  place.localSize = 2;
  place.jobId = "0123abcd";
  place.host = "b";
  place.epoch = 7;
  place.store = "unix:@colla-0123abcd";
  place.secretHex = std::string(64, 'a');
  place.launcher = "colla";
  return place;
}
Variables collaRun() {
  Variables variables;
  for (const auto& [name, value] : toVariables(samplePlace())) variables[name] = value;
  return variables;
}

const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "2"},
                            {"OMPI_COMM_WORLD_SIZE", "4"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                            {"PMIX_NAMESPACE", "prterun-a-17@1"}};
const Variables kHydra = {{"PMI_RANK", "1"},
                          {"PMI_SIZE", "2"},
                          {"MPI_LOCALRANKID", "1"},
                          {"MPI_LOCALNRANKS", "2"},
                          {"COLLA_JOB_ID", "mine"}};
const Variables kSrun = {{"SLURM_PROCID", "3"},
                         {"SLURM_NTASKS", "5"},
                         {"SLURM_LOCALID", "1"},
                         {"SLURM_NODEID", "1"},
                         {"SLURM_JOB_ID", "1000"},
                         {"SLURM_STEP_ID", "2"},
                         {"SLURM_STEP_NUM_TASKS", "5"},
                         {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"},
                         {"SLURM_STEP_NODELIST", "n[07-09]"}};
const Variables kTorchrun = {{"RANK", "1"},
                             {"WORLD_SIZE", "2"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "2"},
                             {"MASTER_ADDR", "a"},
                             {"MASTER_PORT", "29500"},
                             {"TORCHELASTIC_RUN_ID", "none"},
                             {"TORCHELASTIC_RESTART_COUNT", "0"}};

TEST(Environment, NothingIsAJobOfOne) {
  const auto place = read({});
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_TRUE(place->alone());
  EXPECT_EQ(place->rank, 0);
  EXPECT_EQ(place->store, "");
  EXPECT_EQ(place->launcher, "none");
  EXPECT_EQ(place->host, hostName());
}

TEST(Environment, ReadsWhatCollaRunWrites) {
  const auto place = read(collaRun());
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(place->role, Role::kServer);
  EXPECT_EQ(place->rank, 1);
  EXPECT_EQ(place->size, 4);
  EXPECT_EQ(place->servers, 2);
  EXPECT_EQ(place->localRank, 1);
  EXPECT_EQ(place->localSize, 2);
  EXPECT_EQ(place->jobId, "0123abcd");
  EXPECT_EQ(place->host, "b");
  EXPECT_EQ(place->epoch, 7u);
  EXPECT_EQ(place->store, "unix:@colla-0123abcd");
  EXPECT_FALSE(place->servesStore);
  EXPECT_EQ(place->secretHex, std::string(64, 'a'));
  EXPECT_EQ(place->launcher, "colla");
}

TEST(Environment, CollaRunIsStrongestAndItsVariablesComeTogether) {
  const auto both = read(with(kOpenMpi, collaRun()));
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(both->launcher, "colla");

  // The host's name and nothing else may be missing.
  for (const auto& [name, value] : collaRun()) {
    const auto place = read(without(collaRun(), name));
    if (name == "COLLA_HOST") {
      EXPECT_TRUE(place.ok()) << place.status();
    } else {
      // The secret comes in one of two ways, of which `colla run` uses the descriptor.
      const std::string missing = name == "COLLA_SECRET" ? "COLLA_SECRET_FD" : name;
      EXPECT_THAT(toString(place.status()), HasSubstr(missing + " is not")) << name;
    }
  }
}

TEST(Environment, OpenMpiOnOneHost) {
  const auto place = read(kOpenMpi);
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(place->rank, 2);
  EXPECT_EQ(place->size, 4);
  EXPECT_EQ(place->localRank, 2);
  EXPECT_EQ(place->launcher, "mpirun");
  EXPECT_FALSE(place->servesStore);
  EXPECT_TRUE(place->oneHost());
  EXPECT_THAT(place->store,
              ::testing::StartsWith("unix:@colla-" + std::to_string(getuid()) + "-mpirun-prterun"));
  const auto first =
      read(with(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}}));
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(first->servesStore);
  EXPECT_EQ(first->store, place->store);
}

TEST(Environment, MpirunAcrossHostsNeedsSecretAndStore) {
  Variables variables =
      with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}});
  EXPECT_THAT(toString(read(variables).status()), HasSubstr("set COLLA_SECRET_FILE="));
  variables["COLLA_SECRET_FILE"] = "/s";
  EXPECT_THAT(toString(read(variables).status()), HasSubstr("set COLLA_STORE=HOST:PORT"));
  variables["COLLA_STORE"] = "a:7000";
  const auto place = read(variables);
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(place->store, "a:7000");
  EXPECT_EQ(place->secretFile, "/s");
  EXPECT_FALSE(place->oneHost());
  for (const char* bad : {"a", "a:", ":7000", "a:0", "a:70000", "a:7x", "unix:@"}) {
    EXPECT_THAT(toString(read(with(variables, {{"COLLA_STORE", bad}})).status()),
                HasSubstr("COLLA_STORE is \"" + std::string(bad) + "\""));
  }
}

TEST(Environment, Hydra) {
  const auto place = read(kHydra);
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(place->rank, 1);
  EXPECT_EQ(place->launcher, "mpirun");
  EXPECT_EQ(place->jobId, "mine");
  EXPECT_THAT(toString(read(without(kHydra, "COLLA_JOB_ID")).status()),
              HasSubstr("set COLLA_JOB_ID"));
}

TEST(Environment, MpirunsProcessManagerTellsSecretAndStore) {
  const Variables across = {
      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}, {"PMIX_RANK", "2"}};
  const auto open = read(with(kOpenMpi, across));
  ASSERT_TRUE(open.ok()) << open.status();
  EXPECT_EQ(open->handout, Handout::kPmix);
  EXPECT_EQ(open->store, "");
  EXPECT_EQ(open->jobId, "mpirun-prterun-a-17@1");

  // MPICH tells not even a job id.
  const Variables hydra = with(without(kHydra, "COLLA_JOB_ID"), {{"PMI_FD", "6"}});
  for (const char* here : {"1", "2"}) {
    const auto place = read(with(hydra, {{"MPI_LOCALNRANKS", here}, {"MPI_LOCALRANKID", "0"}}));
    ASSERT_TRUE(place.ok()) << place.status();
    EXPECT_EQ(place->handout, Handout::kPmi);
    EXPECT_EQ(place->jobId, "");
    EXPECT_EQ(place->store, "");
  }
  // With all of it given, or on one host with a name, nobody is asked.
  EXPECT_EQ(read(with(kHydra, {{"PMI_FD", "6"}}))->handout, Handout::kNone);
  EXPECT_EQ(
      read(with(with(kOpenMpi, across), {{"COLLA_SECRET_FILE", "/s"}, {"COLLA_STORE", "a:7000"}}))
          ->handout,
      Handout::kNone);
}

TEST(Environment, SrunAcrossHosts) {
  const auto handed = read(kSrun);
  ASSERT_TRUE(handed.ok()) << handed.status();
  EXPECT_EQ(handed->handout, Handout::kMunge);
  const auto place = read(with(kSrun, {{"COLLA_SECRET_FILE", "/s"}}));
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(place->handout, Handout::kNone);
  EXPECT_EQ(place->store, handed->store);
  EXPECT_EQ(place->rank, 3);
  EXPECT_EQ(place->size, 5);
  EXPECT_EQ(place->localRank, 1);
  EXPECT_EQ(place->localSize, 2);
  EXPECT_EQ(place->launcher, "srun");
  EXPECT_EQ(place->jobId, "srun-1000.2");
  EXPECT_EQ(place->store, "n07:" + std::to_string(20000 + (1000 * 16 + 2) % 12000));
  // pmi2 under srun sets these too; the step is what counts.
  EXPECT_TRUE(
      read(with(kSrun, {{"COLLA_SECRET_FILE", "/s"}, {"PMI_RANK", "3"}, {"PMI_SIZE", "5"}})).ok());
}

TEST(Environment, SlurmCountsTheCpusOfATask) {
  const Variables srun = with(kSrun, {{"COLLA_SECRET_FILE", "/s"}});
  EXPECT_EQ(read(srun)->ownCpus, 0);
  EXPECT_EQ(read(with(srun, {{"SLURM_CPUS_PER_TASK", "4"}}))->ownCpus, 4);
}

TEST(Environment, SlurmBatchShellIsAJobOfOne) {
  Variables shell = without(without(kSrun, "SLURM_STEP_ID"), "SLURM_STEP_NUM_TASKS");
  shell["SLURM_PROCID"] = "0";
  for (const char* step : {"", "4294967291", "4294967290", "4294967294", "-5"}) {
    const auto place = read(with(shell, {{"SLURM_STEP_ID", step}}));
    ASSERT_TRUE(place.ok()) << place.status();
    EXPECT_TRUE(place->alone()) << step;
    EXPECT_EQ(place->launcher, "none") << step;
  }
}

TEST(Environment, Torchrun) {
  const auto place = read(kTorchrun);
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(place->rank, 1);
  EXPECT_EQ(place->launcher, "torchrun");
  EXPECT_TRUE(place->oneHost());
  // A restarted job must not meet the one before it.
  const auto restarted = read(with(kTorchrun, {{"TORCHELASTIC_RESTART_COUNT", "1"}}));
  ASSERT_TRUE(restarted.ok());
  EXPECT_NE(restarted->store, place->store);
  // Nor another one with the same run id.
  const auto other = read(with(kTorchrun, {{"MASTER_PORT", "29501"}}));
  ASSERT_TRUE(other.ok());
  EXPECT_NE(other->store, place->store);

  Variables across = with(
      kTorchrun, {{"LOCAL_WORLD_SIZE", "1"}, {"LOCAL_RANK", "0"}, {"COLLA_SECRET_FILE", "/s"}});
  EXPECT_EQ(read(across)->store, "a:29501");
  EXPECT_THAT(toString(read(without(across, "COLLA_SECRET_FILE")).status()),
              HasSubstr("set COLLA_SECRET_FILE="));
  EXPECT_EQ(read(without(with(across, {{"SLURM_JOB_ID", "7"}}), "COLLA_SECRET_FILE"))->handout,
            Handout::kMunge);
  EXPECT_EQ(read(with(across, {{"MASTER_PORT", "65535"}}))->store, "a:65534");
  // A host where nothing failed restarts with the others but keeps its count.
  EXPECT_EQ(read(with(across, {{"TORCHELASTIC_RESTART_COUNT", "1"}}))->jobId, read(across)->jobId);
  // Several agents on one host: what rank 0's host is decides.
  for (const std::string& master : {std::string("127.0.0.1"), hostName()}) {
    const Variables agents = with(without(across, "COLLA_SECRET_FILE"), {{"MASTER_ADDR", master}});
    const auto here = read(agents);
    ASSERT_TRUE(here.ok()) << here.status();
    EXPECT_TRUE(here->oneHost());
    EXPECT_EQ(here->localSize, 2);
    EXPECT_EQ(here->localRank, 1);
    // As long as nothing is set for hosts.
    EXPECT_FALSE(read(with(agents, {{"COLLA_SECRET_FILE", "/s"}}))->oneHost());
  }
  // Without torchrun's own variables, as for env://.
  EXPECT_EQ(read(without(kTorchrun, "TORCHELASTIC_RUN_ID"))->rank, 1);
}

TEST(Environment, TheInnermostLauncherCounts) {
  EXPECT_EQ(read(with(kSrun, kTorchrun))->launcher, "torchrun");
  EXPECT_EQ(read(with(kSrun, kOpenMpi))->launcher, "mpirun");
  // Names for torch that a script derived from mpirun's.
  const Variables derived = {{"RANK", "2"}, {"WORLD_SIZE", "4"}};
  EXPECT_EQ(read(with(kOpenMpi, derived))->launcher, "mpirun");
}

TEST(Environment, OneProcessUnderAnyLauncherIsAlone) {
  const Variables one[] = {
      {{"OMPI_COMM_WORLD_RANK", "0"},
       {"OMPI_COMM_WORLD_SIZE", "1"},
       {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
       {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}},
      {{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "1"}},
      {{"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "0"}, {"SLURM_JOB_ID", "5"}, {"SLURM_NTASKS", "1"}},
      {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}},
  };
  for (const auto& variables : one) {
    const auto place = read(variables);
    ASSERT_TRUE(place.ok()) << place.status();
    EXPECT_TRUE(place->alone());
    EXPECT_NE(place->launcher, "none");
  }
}

TEST(Environment, LongAndOddJobIdsGiveShortDistinctNames) {
  std::set<std::string> stores;
  for (const std::string& id : {std::string(200, 'x'), std::string(201, 'x'), std::string("a b"),
                                std::string("a_b"), std::string("a/b")}) {
    const auto place = read(with(kTorchrun, {{"COLLA_JOB_ID", id}}));
    ASSERT_TRUE(place.ok()) << place.status();
    EXPECT_LT(place->store.size(), 100u);
    EXPECT_EQ(place->store.find_first_of(" /", 6), std::string::npos);
    stores.insert(place->store);
  }
  EXPECT_EQ(stores.size(), 5u);
}

struct Refused {
  const char* what;
  Variables variables;
  const char* names;  // The variable.
  const char* says;   // Its value, or what is wrong with it.
};

class EnvironmentRefuses : public ::testing::TestWithParam<Refused> {};

TEST_P(EnvironmentRefuses, NamesTheVariableAndTheValue) {
  const auto place = read(GetParam().variables);
  ASSERT_FALSE(place.ok());
  EXPECT_EQ(place.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(toString(place.status()),
              AllOf(HasSubstr(GetParam().names), HasSubstr(GetParam().says)));
}

INSTANTIATE_TEST_SUITE_P(
    All, EnvironmentRefuses,
    ::testing::Values(
        Refused{"RankOfSize", with(collaRun(), {{"COLLA_RANK", "2"}}), "COLLA_RANK", "\"2\""},
        Refused{"NegativeRank", with(collaRun(), {{"COLLA_RANK", "-1"}}), "COLLA_RANK", "\"-1\""},
        Refused{"RankIsText", with(collaRun(), {{"COLLA_RANK", "1x"}}), "COLLA_RANK", "\"1x\""},
        Refused{"HugeSize", with(collaRun(), {{"COLLA_SIZE", "99999999999999999999"}}),
                "COLLA_SIZE", "99999999999999999999"},
        Refused{"ZeroSize", with(collaRun(), {{"COLLA_SIZE", "0"}}), "COLLA_SIZE", "\"0\""},
        Refused{"Role", with(collaRun(), {{"COLLA_ROLE", "boss"}}), "COLLA_ROLE", "\"boss\""},
        Refused{"LocalOverSize", with(collaRun(), {{"COLLA_LOCAL_SIZE", "3"}}), "COLLA_LOCAL_SIZE",
                "\"3\""},
        Refused{"Epoch", with(collaRun(), {{"COLLA_EPOCH", "4294967296"}}), "COLLA_EPOCH",
                "4294967296"},
        Refused{"ShortSecret", with(collaRun(), {{"COLLA_SECRET", "abc"}}), "COLLA_SECRET",
                "3 characters"},
        Refused{"StoreAlone", {{"COLLA_STORE", "a:1"}}, "COLLA_STORE", "\"a:1\""},
        Refused{"RankAlone", {{"COLLA_RANK", "0"}}, "COLLA_RANK is set", "COLLA_ROLE is not"},
        Refused{"MpiRank", with(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "4"}}), "OMPI_COMM_WORLD_RANK",
                "\"4\""},
        Refused{"MpiSizeMissing", without(kOpenMpi, "OMPI_COMM_WORLD_SIZE"), "OMPI_COMM_WORLD_SIZE",
                "is not set"},
        Refused{"MpiLocalMissing", without(kOpenMpi, "OMPI_COMM_WORLD_LOCAL_SIZE"),
                "OMPI_COMM_WORLD_LOCAL_SIZE", "is not set"},
        Refused{"MpiLocalOverSize", with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "5"}}),
                "OMPI_COMM_WORLD_LOCAL_SIZE is 5", "more than"},
        Refused{"MpiAgainstTorch", with(kOpenMpi, {{"RANK", "0"}, {"WORLD_SIZE", "8"}}),
                "WORLD_SIZE", "\"8\", but mpirun says 4"},
        Refused{"PmiWithoutLocal", without(kHydra, "MPI_LOCALRANKID"), "MPI_LOCALRANKID",
                "is not set"},
        Refused{"SlurmTasks", with(kSrun, {{"SLURM_STEP_TASKS_PER_NODE", "2(x9)"}}),
                "SLURM_STEP_TASKS_PER_NODE", "\"2(x9)\""},
        Refused{"SlurmCpus", with(kSrun, {{"SLURM_CPUS_PER_TASK", "many"}}), "SLURM_CPUS_PER_TASK",
                "\"many\""},
        Refused{"SlurmRank", with(kSrun, {{"SLURM_PROCID", "5"}}), "SLURM_PROCID", "\"5\""},
        Refused{"SlurmStep", with(kSrun, {{"SLURM_STEP_ID", "x"}}), "SLURM_STEP_ID", "\"x\""},
        Refused{"SlurmLocal", with(kSrun, {{"SLURM_LOCALID", "2"}}), "SLURM_LOCALID", "\"2\""},
        Refused{"TorchSizeAlone", {{"WORLD_SIZE", "8"}}, "RANK", "is not set"},
        Refused{"TorchPort", with(kTorchrun, {{"MASTER_PORT", "0"}}), "MASTER_PORT", "\"0\""},
        Refused{"TorchMaster", without(kTorchrun, "MASTER_ADDR"), "MASTER_ADDR", "is not set"},
        Refused{"TorchLocal", without(kTorchrun, "LOCAL_RANK"), "LOCAL_RANK", "is not set"},
        Refused{"UnknownLauncher", {{"PMIX_RANK", "3"}}, "PMIX_RANK", "\"3\""}),
    [](const auto& refused) { return std::string(refused.param.what); });

TEST(Environment, ErrorsKeepTheSecret) {
  const auto place = read(with(collaRun(), {{"COLLA_SECRET", "hunter2"}}));
  EXPECT_THAT(toString(place.status()), ::testing::Not(HasSubstr("hunter2")));
}

TEST(Slurm, TasksPerNode) {
  EXPECT_EQ(slurm::tasksPerNode("4"), (std::vector<int>{4}));
  EXPECT_EQ(slurm::tasksPerNode("2(x3),1"), (std::vector<int>{2, 2, 2, 1}));
  EXPECT_EQ(slurm::tasksPerNode("1,2,1(x2)"), (std::vector<int>{1, 2, 1, 1}));
  for (const char* bad : {"", "0", "x", "2(x", "2(x0)", "2,", "2(x3", "-1", "1(x2000000000)"}) {
    EXPECT_TRUE(slurm::tasksPerNode(bad).empty()) << bad;
  }
}

TEST(Slurm, NodeNames) {
  using Nodes = std::vector<std::string>;
  EXPECT_EQ(slurm::nodeNames("a"), Nodes{"a"});
  EXPECT_EQ(slurm::nodeNames("a1,b2"), (Nodes{"a1", "b2"}));
  EXPECT_EQ(slurm::nodeNames("n[07-09,12],b"), (Nodes{"n07", "n08", "n09", "n12", "b"}));
  EXPECT_EQ(slurm::nodeNames("r[1,3]-n[0-1]x"), (Nodes{"r1-n0x", "r1-n1x", "r3-n0x", "r3-n1x"}));
  for (const char* bad : {"", ",", "n[", "n[]", "n[1-]", "n[2-1]", "n[a]", "n[1-99999999]"}) {
    EXPECT_TRUE(slurm::nodeNames(bad).empty()) << bad;
  }
}

TEST(Slurm, FirstNode) {
  EXPECT_EQ(slurm::firstNode("a"), "a");
  EXPECT_EQ(slurm::firstNode("a1,b2"), "a1");
  EXPECT_EQ(slurm::firstNode("n[07-09,12],b"), "n07");
  EXPECT_EQ(slurm::firstNode("r[1,3]-n[0-3]"), "r1-n0");
  EXPECT_EQ(slurm::firstNode("n[1"), "");
  EXPECT_EQ(slurm::firstNode(""), "");
}

}  // namespace
}  // namespace colla::job
