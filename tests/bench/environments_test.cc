// Environments of peers, made by a Python that only pretends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "bench/systems.h"
#include "support/scratch.h"

namespace colla::bench {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class EnvironmentsTest : public ::testing::Test {
 protected:
  EnvironmentsTest() : coordinator_(*Coordinator::create()) {
    setenv("XDG_CACHE_HOME", (directory_ + "/cache").c_str(), 1);
    setenv("COLLA_PEER_PYTHON", (directory_ + "/python").c_str(), 1);
  }
  ~EnvironmentsTest() override {
    for (const char* name : {"XDG_CACHE_HOME", "COLLA_PEER_PYTHON", "COLLA_TORCH_PYTHON"}) {
      unsetenv(name);
    }
  }

  // `python -m venv DIR` makes an environment in which pip does what `pip` says.
  void pretend(const std::string& pip) {
    std::ofstream(directory_ + "/python")
        << "#!/bin/sh\nmkdir -p \"$3/bin\"\nprintf '#!/bin/sh\\n%s\\n' '" << pip
        << "' > \"$3/bin/python\"\nchmod +x \"$3/bin/python\"\n";
    fs::permissions(directory_ + "/python", fs::perms::owner_all);
  }
  auto python(bool make, const std::string& name = "mxnet") {
    return peerPython(*coordinator_, name, make,
                      [this](const std::string& line) { told_.push_back(line); });
  }
  std::string failure(bool make, const std::string& name = "mxnet") {
    return std::string(python(make, name).status().message());
  }
  std::string cache() const { return directory_ + "/cache/colla/bench"; }

  const Scratch scratch_;
  const std::string& directory_ = scratch_.path();
  const std::unique_ptr<Coordinator> coordinator_;
  std::vector<std::string> told_;
};

TEST_F(EnvironmentsTest, WhatIsMissingIsNotMadeUnlessAsked) {
  EXPECT_EQ(python(false).status().code(), StatusCode::kNotFound);
  EXPECT_THAT(failure(false),
              AllOf(HasSubstr(cache() + "/mxnet-1.9.1"), HasSubstr("--peers mxnet installs it")));
  EXPECT_FALSE(fs::exists(cache()));
}

TEST_F(EnvironmentsTest, IsMadeOnceAndKept) {
  pretend("echo \"$@\" > \"${0%/bin/python}/installed\"");
  const auto made = python(true);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(*made, cache() + "/mxnet-1.9.1/bin/python");
  EXPECT_THAT(told_, ElementsAre(AllOf(HasSubstr("mxnet==1.9.1 numpy<1.24"), HasSubstr(cache()))));
  std::ifstream in(cache() + "/mxnet-1.9.1/installed");
  std::string installed;
  std::getline(in, installed);
  EXPECT_THAT(installed, AllOf(HasSubstr("-m pip install"), HasSubstr("mxnet==1.9.1 numpy<1.24")));

  pretend("exit 1");
  EXPECT_EQ(*python(true), *made);
  EXPECT_EQ(*python(false), *made);
  EXPECT_EQ(told_.size(), 1U);
}

TEST_F(EnvironmentsTest, WithoutPyPiSaysWhatToDoAndLeavesNothing) {
  pretend("echo no route to host; exit 1");
  EXPECT_THAT(failure(true), AllOf(HasSubstr("cannot install mxnet==1.9.1 numpy<1.24 from PyPI"),
                                   HasSubstr("PIP_INDEX_URL"), HasSubstr("no route to host")));
  EXPECT_THAT(std::vector(fs::directory_iterator(cache()), {}), IsEmpty());
}

TEST_F(EnvironmentsTest, WithoutPythonSaysWhatToInstall) {
  EXPECT_THAT(failure(true), AllOf(HasSubstr("python3-venv"), HasSubstr("COLLA_PEER_PYTHON")));
}

TEST_F(EnvironmentsTest, TorchIsFoundWhereTheUserSays) {
  pretend("");
  setenv("COLLA_TORCH_PYTHON", "/bin/true", 1);  // A Python that finds everything.
  EXPECT_EQ(*python(false, "torch"), "/bin/true");
  setenv("COLLA_TORCH_PYTHON", "/bin/false", 1);
  EXPECT_THAT(failure(false, "torch"), AllOf(HasSubstr("no Python with torch (tried /bin/false)"),
                                             HasSubstr("pip install torch")));
}

}  // namespace
}  // namespace colla::bench
