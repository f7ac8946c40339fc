#include "launch/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "job/environment.h"
#include "job/settings.h"
#include "rendezvous/secret_descriptor.h"

namespace colla::launch {
namespace {

using ::testing::HasSubstr;

class PlanTest : public ::testing::Test {
 protected:
  PlanTest() {
    options_.command = {"/bin/sh", "-c", "true"};
    surroundings_.environment = {"PATH=/usr/bin:/bin", "COLLA_CONFIG=old.toml",
                                 "OMP_NUM_THREADS=9"};
    surroundings_.cores = 8;
    surroundings_.host = "a";
    surroundings_.jobId = "j1";
    surroundings_.secretHex = std::string(64, '7');
    secret_ = *rendezvous::makeSecretDescriptor(std::string(32, 'w'));  // Its code is 0x77.
    surroundings_.secretFd = secret_.get();
  }
  Result<Plan> plan() {
    auto config = Config::load(job::settings(), flags_, "", [](const char*) { return nullptr; });
    EXPECT_TRUE(config.ok()) << config.status();
    options_.config = *std::move(config);
    return makePlan(options_, surroundings_);
  }
  static std::string valueOf(const Process& process, const std::string& name) {
    for (const std::string& entry : process.environment) {
      if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
    }
    return "(none)";
  }

  RunOptions options_;
  UniqueFd secret_;
  Surroundings surroundings_;
  std::map<std::string, std::string> flags_;
};

TEST_F(PlanTest, EveryProcessFindsItsPlace) {
  options_.workers = 2;
  options_.servers = 1;
  const auto made = plan();
  ASSERT_TRUE(made.ok()) << made.status();
  ASSERT_EQ(made->processes.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    const Process& process = made->processes[i];
    std::string held;
    const auto place = job::readEnvironment([&](const char* name) -> const char* {
      held = valueOf(process, name);
      return held == "(none)" ? nullptr : held.c_str();
    });
    ASSERT_TRUE(place.ok()) << place.status();
    EXPECT_EQ(place->role, i < 2 ? Role::kWorker : Role::kServer);
    EXPECT_EQ(place->rank, i < 2 ? i : 0);
    EXPECT_EQ(place->size, 2);
    EXPECT_EQ(place->servers, 1);
    EXPECT_EQ(place->store, "unix:@colla-j1");
    EXPECT_EQ(place->secretHex, surroundings_.secretHex);
    EXPECT_EQ(valueOf(process, "COLLA_SECRET"), "(none)");
    EXPECT_EQ(place->host, "a");
  }
  EXPECT_EQ(made->processes[2].name(), "ps 0");
  EXPECT_EQ(made->processes[1].fileName(), "worker-1");
}

// An outer launcher's are replaced; --env has the last word.
TEST_F(PlanTest, WorkersHaveWhatTorchExpects) {
  options_.workers = 2;
  options_.servers = 1;
  surroundings_.freePort = 4321;
  surroundings_.environment.insert(
      surroundings_.environment.end(),
      {"RANK=7", "WORLD_SIZE=9", "MASTER_ADDR=b", "TORCHELASTIC_USE_AGENT_STORE=True"});
  const auto made = plan();
  ASSERT_TRUE(made.ok()) << made.status();
  const Process& second = made->processes[1];
  EXPECT_EQ(valueOf(second, "RANK"), "1");
  EXPECT_EQ(valueOf(second, "WORLD_SIZE"), "2");
  EXPECT_EQ(valueOf(second, "LOCAL_RANK"), "1");
  EXPECT_EQ(valueOf(second, "LOCAL_WORLD_SIZE"), "2");
  EXPECT_EQ(valueOf(second, "MASTER_ADDR"), "127.0.0.1");
  EXPECT_EQ(valueOf(second, "MASTER_PORT"), "4321");
  EXPECT_EQ(valueOf(second, "TORCHELASTIC_USE_AGENT_STORE"), "(none)");
  EXPECT_EQ(valueOf(made->processes[2], "MASTER_PORT"), "(none)");  // A server.
  options_.environment = {{"MASTER_PORT", "99"}};
  EXPECT_EQ(valueOf(plan()->processes[0], "MASTER_PORT"), "99");
}

TEST_F(PlanTest, ThreadsDependOnCoresAndWorkersAlone) {
  options_.workers = 3;
  EXPECT_EQ(valueOf(plan()->processes[0], "COLLA_THREADS"), "2");
  EXPECT_EQ(valueOf(plan()->processes[0], "OMP_NUM_THREADS"), "2");
  EXPECT_EQ(valueOf(plan()->processes[0], "MKL_NUM_THREADS"), "2");
  options_.servers = 5;
  EXPECT_EQ(valueOf(plan()->processes[7], "COLLA_THREADS"), "2");
  options_.workers = 100;
  EXPECT_EQ(valueOf(plan()->processes[0], "COLLA_THREADS"), "1");
  flags_["threads"] = "4";
  options_.environment = {{"OMP_NUM_THREADS", "6"}};
  EXPECT_EQ(valueOf(plan()->processes[0], "COLLA_THREADS"), "4");
  EXPECT_EQ(valueOf(plan()->processes[0], "OMP_NUM_THREADS"), "6");
}

TEST_F(PlanTest, SettingsAreResolvedHereAndPassedOn) {
  flags_ = {{"slices", "8"}, {"spin-us", "5"}};
  const auto made = plan();
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(valueOf(made->processes[0], "COLLA_SLICES"), "8");
  EXPECT_EQ(valueOf(made->processes[0], "COLLA_SPIN_US"), "5");
  EXPECT_EQ(valueOf(made->processes[0], "COLLA_TRANSPORT"), "(none)");
  EXPECT_EQ(valueOf(made->processes[0], "COLLA_CONFIG"), "(none)");
}

TEST_F(PlanTest, EnvironmentHasNoNameTwice) {
  options_.environment = {{"PATH", "/bin"}, {"COLLA_LOG", "warn"}};
  flags_["log"] = "debug";
  const auto made = plan();
  ASSERT_TRUE(made.ok()) << made.status();
  std::vector<std::string> names;
  for (const auto& entry : made->processes[0].environment) {
    names.push_back(entry.substr(0, entry.find('=')));
  }
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
  EXPECT_EQ(valueOf(made->processes[0], "COLLA_LOG"), "warn");
}

TEST_F(PlanTest, RefusesWhatMakesNoSense) {
  const auto error = [&] { return toString(plan().status()); };
  options_.workers = 0;
  EXPECT_THAT(error(), HasSubstr("-np is 0"));
  options_.workers = 2147483647;
  options_.servers = 2147483647;
  EXPECT_THAT(error(), HasSubstr("more than the 4096 processes"));
  options_.workers = 4;
  options_.servers = -1;
  EXPECT_THAT(error(), HasSubstr("--ps is -1"));
  options_.servers = 0;
  flags_["slices"] = "3";
  EXPECT_THAT(error(), HasSubstr("--slices is 3, but 4 workers need"));
  flags_.clear();
  options_.environment = {{"COLLA_RANK", "3"}};
  EXPECT_THAT(error(), HasSubstr("--env COLLA_RANK"));
  options_.environment.clear();
  options_.command.clear();
  EXPECT_THAT(error(), HasSubstr("no program given"));
}

TEST_F(PlanTest, FindsTheProgramInTheProcessesOwnPath) {
  options_.command = {"sh"};
  EXPECT_EQ(plan()->program, "/usr/bin/sh");
  options_.environment = {{"PATH", "/nowhere:/bin"}};
  EXPECT_EQ(plan()->program, "/bin/sh");
  options_.environment = {{"PATH", "/nowhere"}};
  EXPECT_EQ(plan().status().code(), StatusCode::kNotFound);
  options_.command = {"/etc/passwd"};
  EXPECT_EQ(plan().status().code(), StatusCode::kRefused);
  options_.command = {"/etc"};
  EXPECT_EQ(plan().status().code(), StatusCode::kRefused);
}

}  // namespace
}  // namespace colla::launch
