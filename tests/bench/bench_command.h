// `colla bench PART` as users call it, in a directory of its own; nothing may be left in its
// TMPDIR.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "support/command.h"
#include "support/scratch.h"

namespace colla::bench {

class BenchCommand : public ::testing::Test {
 protected:
  explicit BenchCommand(std::string part) : part_(std::move(part)) {}

  void SetUp() override { std::filesystem::create_directories(temporary()); }
  void TearDown() override { EXPECT_TRUE(std::filesystem::is_empty(temporary())); }

  // The exit code.
  int bench(const std::string& arguments, const std::string& environment = "") {
    const auto ended = cli::runColla(directory_, "bench " + part_ + " " + arguments, COLLA_BINARY,
                                     "TMPDIR='" + temporary() + "' " + environment);
    out_ = ended.out;
    error_ = ended.error;
    return ended.exitCode;
  }
  std::string temporary() const { return directory_ + "/tmp"; }
  // The records of a run that ends well. `quick` makes it a short one.
  nlohmann::json measure(const std::string& arguments,
                         const std::string& quick = "--rounds 1 --seconds 0.01 ") {
    EXPECT_EQ(bench("--json out.json " + quick + arguments), 0) << error_;
    const auto list = json();
    EXPECT_TRUE(list.is_array()) << error_;
    return list;
  }
  // What `--json out.json` has written.
  nlohmann::json json() const {
    return nlohmann::json::parse(readText(scratch_.at("out.json")), nullptr, false);
  }

  const Scratch scratch_;
  const std::string& directory_ = scratch_.path();
  std::string out_;
  std::string error_;

 private:
  const std::string part_;
};

}  // namespace colla::bench
