// What a user reads who mistypes, and who asks for help.
#include "base/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/nearest.h"

namespace colla {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(NearestTest, FindsWhatWasMeant) {
  const std::vector<std::string> flags = {"--lr", "--learning-rate", "--batch-size", "--epochs"};
  EXPECT_EQ(didYouMean("--learnrate", flags), "; did you mean --learning-rate?");
  EXPECT_EQ(didYouMean("--learn", flags), "; did you mean --learning-rate?");
  EXPECT_EQ(didYouMean("--batchsize", flags), "; did you mean --batch-size?");
  EXPECT_EQ(didYouMean("--epoch", flags), "; did you mean --epochs?");
  EXPECT_EQ(didYouMean("trian", {"run", "train"}), "; did you mean train?");
  // Four of eight letters are missing.
  EXPECT_EQ(didYouMean("--learnrat", flags), "");
  EXPECT_EQ(didYouMean("--bogus", flags), "");
  EXPECT_EQ(didYouMean("", flags), "");
  EXPECT_EQ(didYouMean("x", {}), "");
}

class CommandLineTest : public ::testing::Test {
 protected:
  CommandLineTest() {
    app_.add_option("MODEL", text_, "which model")->required();
    app_.add_option("--lr,--learning-rate", rate_, "learning rate")->default_str("0.1");
    app_.add_option("-n,--np", count_, "workers");
    app_.add_option("--out", text_, "file to write")->option_text("FILE");
    app_.add_option("--part", part_, "of the data")->check(CLI::IsMember({"train", "test"}));
    app_.add_flag("--quiet", quiet_, "say nothing");
    addJsonFlag(app_, json_, "the same as JSON");
  }
  // What `arguments` end with, on standard error; "" if they are taken.
  std::string refusal(const Arguments& arguments) {
    ::testing::internal::CaptureStderr();
    const auto exitCode = parse(app_, arguments);
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(exitCode, said.empty() ? std::nullopt : std::optional(kExitUsage));
    return said;
  }

  CLI::App app_{"Does something with a model:\ncolla do MODEL [flags]", "colla do"};
  std::string text_, part_, json_;
  double rate_ = 0;
  int count_ = 0;
  bool quiet_ = false;
};

// Contract: one line that names the flag, what it got and what it takes.
TEST_F(CommandLineTest, ErrorsSayWhatAFlagTakes) {
  const std::string see = " (see colla do --help)\n";
  EXPECT_EQ(refusal({"mlp", "--lr", "abc"}), "colla do: --lr is \"abc\", but takes a number" + see);
  EXPECT_EQ(refusal({"mlp", "--np=2.5"}),
            "colla do: --np is \"2.5\", but takes a whole number" + see);
  EXPECT_EQ(refusal({"mlp", "--part", "tset"}),
            "colla do: --part is \"tset\", but takes train or test" + see);
  EXPECT_EQ(refusal({"mlp", "--lr"}),
            "colla do: --lr takes a number, but nothing follows it" + see);
  EXPECT_EQ(refusal({"mlp", "--lr", "1", "--lr", "2"}),
            "colla do: --lr is given more than once" + see);
  EXPECT_EQ(refusal({"mlp", "--learnrate", "1"}),
            "colla do: there is no flag --learnrate; did you mean --learning-rate?" + see);
  // What the mistyped flag should have given is not missed first.
  EXPECT_EQ(refusal({"--learn_rate=1"}),
            "colla do: there is no flag --learn-rate; did you mean --learning-rate?" + see);
  EXPECT_EQ(refusal({}), "colla do: MODEL is required" + see);
}

TEST_F(CommandLineTest, ErrorsSayTheLimitsOfANumber) {
  double seconds = 0;
  std::size_t least = 0;
  app_.add_option("--nodes", count_, "hosts")->check(CLI::PositiveNumber);
  app_.add_option("--least", least, "words")->check(CLI::NonNegativeNumber);
  app_.add_option("--ranks", count_, "ranks")->check(CLI::Range(2, 128));
  app_.add_option("--seconds", seconds, "how long")->check(CLI::Range(0.001, 60.0));
  app_.add_option("--limit", seconds, "how long at most")->check(CLI::PositiveNumber);
  const std::string see = " (see colla do --help)\n";
  for (const std::string value : {"0", "abc"}) {
    const std::string got = " is \"" + value + "\", but takes a ";
    EXPECT_EQ(refusal({"mlp", "--nodes", value}),
              "colla do: --nodes" + got + "whole number, 1 or more" + see);
    EXPECT_EQ(refusal({"mlp", "--ranks", value}),
              "colla do: --ranks" + got + "whole number from 2 to 128" + see);
    EXPECT_EQ(refusal({"mlp", "--seconds", value}),
              "colla do: --seconds" + got + "number from 0.001 to 60" + see);
    EXPECT_EQ(refusal({"mlp", "--limit", value}),
              "colla do: --limit" + got + "number above 0" + see);
  }
  EXPECT_EQ(refusal({"mlp", "--least", "-1"}),
            "colla do: --least is \"-1\", but takes a whole number, 0 or more" + see);
  EXPECT_EQ(refusal({"mlp", "--nodes", "1", "--ranks", "2", "--seconds", "60"}), "");
}

// Contract: a flag that lacks its value takes no other flag for it.
TEST_F(CommandLineTest, AFlagIsNotTheValueOfAnother) {
  const std::string see = " (see colla do --help)\n";
  EXPECT_EQ(refusal({"mlp", "--out", "--quiet"}),
            "colla do: --out takes FILE, but nothing follows it" + see);
  EXPECT_EQ(refusal({"mlp", "--out", "--lr=1"}),
            "colla do: --out takes FILE, but nothing follows it" + see);
  EXPECT_EQ(refusal({"--part", "-n", "2"}),
            "colla do: --part takes train or test, but nothing follows it" + see);
  EXPECT_EQ(refusal({"mlp", "--lr", "-0.5"}), "");
  EXPECT_EQ(rate_, -0.5);
  EXPECT_EQ(refusal({"mlp", "--out", "-lr"}), "");  // A file of that name: no flag is.
  EXPECT_EQ(text_, "-lr");
}

TEST_F(CommandLineTest, OneDashIsAnsweredAsTwoAre) {
  const std::string see = " (see colla do --help)\n";
  EXPECT_EQ(refusal({"mlp", "-lr", "0.1"}),
            "colla do: there is no flag -lr; did you mean --lr?" + see);
  EXPECT_EQ(refusal({"mlp", "-quiet"}),
            "colla do: there is no flag -quiet; did you mean --quiet?" + see);
  EXPECT_EQ(refusal({"mlp", "-x"}), "colla do: there is no flag -x" + see);
  EXPECT_EQ(refusal({"mlp", "-n3"}), "");
  EXPECT_EQ(count_, 3);
  EXPECT_EQ(refusal({"mlp", "-np", "4"}), "");
  EXPECT_EQ(count_, 4);
}

TEST_F(CommandLineTest, WhatIsTooMuchIsNamed) {
  const std::string see = " (see colla do --help)\n";
  EXPECT_EQ(refusal({"mlp", "more", "words"}), "colla do: there is no place for \"more\"" + see);
  EXPECT_EQ(refusal({"mlp", "--quiet=maybe"}),
            "colla do: --quiet is \"maybe\", but takes true, false or nothing" + see);
  EXPECT_EQ(refusal({"mlp", "--quiet=True"}), "");
  EXPECT_TRUE(quiet_);
}

TEST_F(CommandLineTest, JsonMayNameAFile) {
  EXPECT_EQ(refusal({"mlp"}), "");
  EXPECT_EQ(json_, "");
  EXPECT_EQ(refusal({"mlp", "--json"}), "");
  EXPECT_EQ(json_, "-");
  EXPECT_EQ(refusal({"mlp", "--json", "out.json", "--quiet"}), "");
  EXPECT_EQ(json_, "out.json");
  // Not where something else is missed then.
  EXPECT_EQ(refusal({"--json", "mlp"}), "");
  EXPECT_EQ(json_, "-");
  EXPECT_EQ(text_, "mlp");
}

TEST_F(CommandLineTest, HelpHasOneUsageLineAndWordsForValues) {
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(parse(app_, {"--help"}), std::optional(0));
  const std::string help = ::testing::internal::GetCapturedStdout();
  EXPECT_TRUE(help.starts_with("Does something with a model.\n\nUsage: colla do MODEL [flags]\n\n"))
      << help;
  EXPECT_EQ(help.find("colla do MODEL"), help.rfind("colla do MODEL")) << help;
  EXPECT_THAT(help, AllOf(HasSubstr("  MODEL   "), HasSubstr("--lr,--learning-rate NUMBER "),
                          HasSubstr("learning rate (0.1)\n"), HasSubstr("-n,--np N "),
                          HasSubstr("--out FILE "), HasSubstr("--part train|test "),
                          HasSubstr("--json [FILE] "), HasSubstr("-h,--help  "),
                          HasSubstr("--quiet  "), Not(HasSubstr("VALUE"))));
  for (const char* const type : {"TEXT", "FLOAT", "INT", "OPTIONS", "REQUIRED", "\n\n\n"}) {
    EXPECT_THAT(help, Not(HasSubstr(type)));
  }
}

}  // namespace
}  // namespace colla
