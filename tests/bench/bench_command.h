// `colla bench PART` as users call it, in a directory of its own; nothing may be left in its
// TMPDIR.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

namespace colla::bench {

class BenchCommand : public ::testing::Test {
 protected:
  explicit BenchCommand(std::string part) : part_(std::move(part)) {}

  void SetUp() override {
    directory_ = ::testing::TempDir() + part_ + "_command_test_" + std::to_string(getpid());
    std::filesystem::create_directories(temporary());
  }
  void TearDown() override {
    EXPECT_TRUE(std::filesystem::is_empty(temporary()));
    std::filesystem::remove_all(directory_);
  }

  // The exit code.
  int bench(const std::string& arguments, const std::string& environment = "") {
    const std::string command = "cd '" + directory_ + "' && TMPDIR='" + temporary() + "' " +
                                environment + " '" COLLA_BINARY "' bench " + part_ + " " +
                                arguments + " >out.txt 2>err.txt";
    const int status = std::system(command.c_str());
    out_ = text("out.txt");
    error_ = text("err.txt");
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string temporary() const { return directory_ + "/tmp"; }
  std::string text(const std::string& name) const {
    std::ifstream in(directory_ + "/" + name);
    std::stringstream all;
    all << in.rdbuf();
    return all.str();
  }
  // What `--json out.json` has written.
  nlohmann::json json() const { return nlohmann::json::parse(text("out.json"), nullptr, false); }

  std::string directory_;
  std::string out_;
  std::string error_;

 private:
  const std::string part_;
};

}  // namespace colla::bench
