// The settings of a job: their table, and the places that they come from.
#include "job/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "base/log.h"
#include "colla/collectives.h"
#include "support/error_of.h"

namespace colla {
namespace {

using namespace std::chrono_literals;
using test::errorOf;
using ::testing::HasSubstr;

class ConfigTest : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(written_); }
  Result<Config> load() {
    return Config::load(job::settings(), flags_, file_, [this](const char* name) -> const char* {
      const auto it = environment_.find(name);
      return it == environment_.end() ? nullptr : it->second.c_str();
    });
  }
  void writeFile(const std::string& text) {
    file_ = written_;
    std::ofstream(file_) << text;
  }

  std::map<std::string, std::string> flags_;
  std::map<std::string, std::string> environment_;
  std::string file_;
  // CTest runs each test in a process of its own, several at a time.
  const std::string written_ =
      ::testing::TempDir() + "config_test_" + std::to_string(getpid()) + ".toml";
};

TEST_F(ConfigTest, TableIsSortedAndItsDefaultsAreValid) {
  EXPECT_TRUE(std::ranges::is_sorted(job::settings(), {}, &Setting::name));
  EXPECT_TRUE(load().ok());
}

TEST_F(ConfigTest, TakesOnlyWhatTheTableAllows) {
  flags_ = {{"transport", "pigeon"}};
  EXPECT_THAT(errorOf(load()),
              HasSubstr("--transport is \"pigeon\", but takes auto, shm, tcp, tcp-plain or ucx"));
  flags_ = {{"tcp-connections", "99"}};
  EXPECT_THAT(errorOf(load()),
              HasSubstr("--tcp-connections is \"99\", but takes a whole number from 1 to 16"));
  flags_ = {{"keep-memory", "2"}};
  EXPECT_THAT(errorOf(load()), HasSubstr("--keep-memory is \"2\", but takes 0 or 1"));
  flags_.clear();
  environment_["COLLA_ALGORITHM"] = "fastest";
  EXPECT_THAT(errorOf(load()), HasSubstr("COLLA_ALGORITHM is \"fastest\", but takes auto, shared"));
  environment_.clear();
  writeFile("spin_us = 7\nlog = \"loud\"\n");
  EXPECT_THAT(errorOf(load()),
              HasSubstr(file_ + " line 2: log is \"loud\", but takes debug, info"));
  flags_ = {{"tcp-connections", "16"}};
  file_.clear();
  EXPECT_TRUE(load().ok());
}

TEST_F(ConfigTest, LogTakesEveryLevel) {
  const auto log = std::ranges::find(job::settings(), "log", &Setting::name);
  std::istringstream levels{std::string(log->choices)};
  for (std::string level; levels >> level;) {
    EXPECT_TRUE(log::parseLevel(level).ok()) << level;
  }
}

TEST(SettingsTest, AlgorithmTakesAllThereAre) {
  const auto setting = std::ranges::find(job::settings(), "algorithm", &Setting::name);
  std::istringstream names{std::string(setting->choices)};
  std::set<int> found;
  for (std::string name; names >> name;) {
    const auto algorithm = parseAlgorithm(name);
    ASSERT_TRUE(algorithm.ok()) << algorithm.status();
    EXPECT_TRUE(found.insert(static_cast<int>(*algorithm)).second) << name;
  }
  EXPECT_EQ(*found.rbegin() + 1, static_cast<int>(found.size()));
  EXPECT_EQ(toString(static_cast<Algorithm>(found.size())), "unknown algorithm");
}

TEST_F(ConfigTest, RefusesTomlThatIsNeitherTextNorNumber) {
  for (const char* value : {"true", "[\"tcp\"]", "{ a = 1 }", "2020-01-01"}) {
    for (const char* name : {"interface", "slices"}) {
      writeFile(std::string("spin_us = 7\n") + name + " = " + value + "\n");
      EXPECT_THAT(errorOf(load()),
                  HasSubstr(file_ + " line 2: " + name + " is neither text nor a number"));
    }
  }
}

TEST_F(ConfigTest, AFileIsAsciiAndEscapesOtherLetters) {
  writeFile("timeline = \"a\\u00e9\"\n");
  const auto fine = load();
  ASSERT_TRUE(fine.ok()) << fine.status();
  EXPECT_EQ(fine->text("timeline"), "aé");
  for (const char* text : {"é = 1", "slices = é", "timeline = \"é\"", "# é"}) {
    writeFile(std::string("spin_us = 7\n") + text + "\n");
    EXPECT_THAT(errorOf(load()), HasSubstr(file_ + " line 2: a settings file is ASCII"));
  }
}

TEST_F(ConfigTest, FlagsBeatEnvironmentBeatsFile) {
  writeFile("collective_timeout = 1\nslices = 4\ntransport = \"tcp\"\n");
  environment_["COLLA_COLLECTIVE_TIMEOUT"] = "2.5";
  environment_["COLLA_SLICES"] = "6";
  flags_["slices"] = "8";
  const auto config = load();
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->integer("slices"), 8);
  EXPECT_EQ(config->seconds("collective_timeout"), 2500ms);
  EXPECT_EQ(config->text("transport"), "tcp");
  EXPECT_EQ(config->origin("slices"), "--slices");
  EXPECT_EQ(config->origin("collective_timeout"), "COLLA_COLLECTIVE_TIMEOUT");
  EXPECT_EQ(config->origin("transport"), file_);
  EXPECT_EQ(config->origin("threads"), "default");
}

TEST_F(ConfigTest, RefusesUnknownNamesAndWrongTypes) {
  writeFile("timeuot = 1\n");
  EXPECT_THAT(errorOf(load()), HasSubstr("line 1: there is no setting \"timeuot\""));
  writeFile("collective_timeout = = 1\n");
  EXPECT_THAT(errorOf(load()), HasSubstr("line 1"));
  file_.clear();
  flags_["no-such"] = "1";
  EXPECT_THAT(errorOf(load()), HasSubstr("there is no setting --no-such"));
  flags_ = {{"tcp-connections", "many"}};
  EXPECT_THAT(errorOf(load()),
              HasSubstr("--tcp-connections is \"many\", but takes a whole number"));
  flags_.clear();
  environment_["COLLA_COLLECTIVE_TIMEOUT"] = "-1";
  EXPECT_THAT(errorOf(load()), HasSubstr("COLLA_COLLECTIVE_TIMEOUT is \"-1\""));
  environment_.clear();
  file_ = "/nonexistent/colla.toml";
  EXPECT_THAT(errorOf(load()), HasSubstr("settings file /nonexistent/colla.toml cannot be read: No "
                                         "such file or directory"));
  file_ = ::testing::TempDir();
  EXPECT_THAT(errorOf(load()),
              HasSubstr("settings file " + file_ + " cannot be read: it is a folder"));
}

TEST_F(ConfigTest, SharedTextHasOnlyWhatAJobMustShare) {
  flags_["slices"] = "8";
  flags_["collective_timeout"] = "7";
  const auto config = load();
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT(config->sharedText(), HasSubstr("slices=8\n"));
  EXPECT_THAT(config->sharedText(), ::testing::Not(HasSubstr("timeout")));
}

}  // namespace
}  // namespace colla
