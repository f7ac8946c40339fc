// `colla eval`, and the evaluations of `colla train` that it repeats.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "support/colla_test.h"

namespace colla::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class EvaluationCommandsTest : public CollaTest {
 protected:
  // Of a --json file.
  std::vector<nlohmann::json> lines(const std::string& name) const {
    std::istringstream text(readText(path(name)));
    std::vector<nlohmann::json> lines;
    for (std::string line; std::getline(text, line);) {
      lines.push_back(nlohmann::json::parse(line, nullptr, false));
    }
    return lines;
  }
};

// Contract: what the training printed of the test set, in every bit, for any number of workers.
TEST_F(EvaluationCommandsTest, IsWhatTheTrainingPrinted) {
  const std::string model = "snn --data synthetic:mnist:330 --hidden 7 ";
  ASSERT_EQ(colla("train " + model +
                  "--epochs 2 --slices 3 --threads 1 --checkpoint-dir run@x --json steps.json")
                .exitCode,
            0);
  const auto trained = lines("steps.json").back();
  for (const char* way : {"", "--strategy mirrored --np 3", "--np 2"}) {
    const Outcome outcome = colla("eval " + model + "--checkpoint-dir run@x --json " + way);
    const auto json = nlohmann::json::parse(outcome.out, nullptr, false);
    ASSERT_FALSE(json.is_discarded()) << outcome.out << outcome.error;
    EXPECT_EQ(json["step"], 8) << way;
    EXPECT_EQ(json["samples"], 55) << way;
    EXPECT_EQ(json["loss"].get<double>(), trained["metrics"]["val_loss"].get<double>()) << way;
    EXPECT_EQ(json["metrics"]["accuracy"].get<double>(),
              trained["metrics"]["val_accuracy"].get<double>())
        << way;
  }
  EXPECT_THAT(colla("eval " + model + "--checkpoint-dir run@x").error,
              HasSubstr("snn: evaluating step 8: strategy single, 1 worker, 3 slices, seed 1, 1 "
                        "thread per slice, batch 100"));
  const Outcome first = colla("eval " + model + "--checkpoint-dir run@x@0 --batch 10");
  const std::regex line("step 0 - 55 samples - loss: 2\\.[0-9]{4} - accuracy: 0\\.[0-9]{4}\n");
  EXPECT_TRUE(std::regex_match(first.out, line)) << first.out;
}

TEST_F(EvaluationCommandsTest, AModelOfAProgramsOwnIsThePrograms) {
  const Outcome outcome = colla("eval my-net --checkpoint-dir run");
  EXPECT_EQ(outcome.exitCode, 2);
  EXPECT_THAT(outcome.error,
              AllOf(StartsWith("colla eval: there is no model \"my-net\"; there are deepfam, "),
                    HasSubstr("; the program that trained a model of its own evaluates it: PROGRAM "
                              "--eval --checkpoint-dir DIR\n")));
}

// Contract: a name is taken as `colla compare` and others take it: what exists as it stands first.
TEST_F(EvaluationCommandsTest, TakesAFolderWithAnAtInItsName) {
  const std::string train =
      "train softmax --data synthetic:mnist:60 --no-eval --save-every 1 --checkpoint-dir ";
  ASSERT_EQ(colla(train + "run --steps 3").exitCode, 0);
  const std::string eval = "eval softmax --data synthetic:mnist:60 --checkpoint-dir ";
  EXPECT_THAT(colla(eval + "run@1").out, StartsWith("step 1 "));
  // Training itself refuses to begin in run@1, which names a step while there is no such folder.
  ASSERT_EQ(colla(train + "other --steps 2").exitCode, 0);
  std::filesystem::rename(path("other"), path("run@1"));
  EXPECT_THAT(colla(eval + "run@1").out, StartsWith("step 2 "));
  EXPECT_THAT(colla(eval + "run@1@0").out, StartsWith("step 0 "));
  const Outcome wrong = colla(eval + "run@one");
  EXPECT_EQ(wrong.exitCode, 2);
  EXPECT_THAT(wrong.error,
              HasSubstr("in \"run@one\", what follows the @ is neither a step nor best"));
}

// Contract: the checkpoint that --keep-best keeps, by its name.
TEST_F(EvaluationCommandsTest, TakesTheBestOne) {
  const std::string data = "softmax --data synthetic:mnist:60 ";
  ASSERT_EQ(colla("train " + data +
                  "--steps 3 --eval-every 2 --keep-best loss --json steps.json "
                  "--early-stop loss:9 --checkpoint-dir run")
                .exitCode,
            0);
  const Outcome best = colla("eval " + data + "--checkpoint-dir run@best --json");
  EXPECT_EQ(best.exitCode, 0) << best.error;
  const auto json = nlohmann::json::parse(best.out, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << best.out << best.error;
  const auto steps = lines("steps.json");
  const double second = steps[1]["metrics"]["val_loss"], third = steps[2]["metrics"]["val_loss"];
  EXPECT_EQ(json["loss"].get<double>(), std::min(second, third));
  EXPECT_EQ(json["step"], second <= third ? 2 : 3);
  EXPECT_EQ(colla("inspect run@best").exitCode, 0);
  const Outcome none = colla("eval " + data + "--checkpoint-dir other@best");
  EXPECT_EQ(none.exitCode, 2);
  EXPECT_THAT(none.error, HasSubstr("no checkpoint in other is marked as the best one"));
}

const char* const kLanguage =
    "lm --data synthetic:text:3000x400 --embedding 16 --units 24 --projection 12 --candidates 50 ";

// Contract: also where tables live on servers, of which a worker looks up few rows in training and
// the evaluation's whole softmax reads all.
TEST_F(EvaluationCommandsTest, IsTheSameWithTablesOnServers) {
  const std::string train = std::string("train ") + kLanguage +
                            "--steps 4 --eval-every 2 --batch 33 --slices 3 --threads 1 ";
  const auto evaluations = [&](const std::string& run, const std::string& how) {
    const Outcome outcome =
        colla(train + "--checkpoint-dir " + run + " --json " + run + ".json " + how);
    EXPECT_EQ(outcome.exitCode, 0) << how << outcome.error;
    std::vector<std::pair<double, double>> found;
    for (const nlohmann::json& line : lines(run + ".json")) {
      if (!line["metrics"].contains("val_loss")) continue;
      found.emplace_back(line["metrics"]["val_loss"], line["metrics"]["val_perplexity"]);
    }
    return found;
  };
  const auto single = evaluations("single", "");
  ASSERT_EQ(single.size(), 3);  // Of steps 2 and 4, and the last one's once more in the totals.
  EXPECT_NE(single[0], single[1]);
  for (const std::string way : {"hybrid", "ps-sync", "ps-ssp"}) {
    EXPECT_EQ(evaluations(way, "--np 2 --strategy " + way), single) << way;
    const Outcome outcome =
        colla(std::string("eval ") + kLanguage + "--json --checkpoint-dir " + way);
    const auto json = nlohmann::json::parse(outcome.out, nullptr, false);
    ASSERT_FALSE(json.is_discarded()) << outcome.out << outcome.error;
    EXPECT_EQ(json["loss"].get<double>(), single[2].first) << way;
    EXPECT_EQ(json["metrics"]["perplexity"].get<double>(), single[2].second) << way;
  }
}

// Its metric is computed from means, of which a run without a step has none.
TEST_F(EvaluationCommandsTest, OfAFinishedRunIsTold) {
  const std::string train =
      std::string("train ") + kLanguage + "--steps 2 --slices 2 --threads 1 --checkpoint-dir run";
  ASSERT_EQ(colla(train).exitCode, 0);
  for (const char* way : {"", " --np 2", " --np 2 --strategy hybrid"}) {
    const Outcome outcome = colla(train + " --resume" + way);
    EXPECT_EQ(outcome.exitCode, 0) << way << outcome.error;
    EXPECT_THAT(outcome.error, AllOf(HasSubstr("step 2 was the last one: nothing is left to train"),
                                     HasSubstr(" - val_perplexity: ")));
  }
}

}  // namespace
}  // namespace colla::cli
