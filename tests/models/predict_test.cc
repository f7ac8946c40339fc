// `colla predict` and `colla export` as users call them: what they write, where, and exit codes.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "support/colla_test.h"

namespace colla::models {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

std::vector<std::string> linesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

class PredictTest : public cli::CollaTest {
 protected:
  void train(const std::string& flags) const {
    const auto trained = colla("train " + flags + " --checkpoint-dir run --quiet");
    ASSERT_EQ(trained.exitCode, 0) << trained.error;
  }
  // One object for each line.
  std::vector<nlohmann::json> objects(const std::string& arguments) const {
    const auto outcome = colla("predict " + arguments + " --checkpoint run --format jsonl");
    EXPECT_EQ(outcome.exitCode, 0) << outcome.error;
    std::vector<nlohmann::json> all;
    for (const std::string& line : linesOf(outcome.out)) all.push_back(nlohmann::json::parse(line));
    return all;
  }
};

TEST_F(PredictTest, FamiliesOfProteins) {
  const std::string model =
      "deepfam --data synthetic:gpcr:300 --length 100 --windows 8 --filters 8 --hidden 20";
  train(model + " --steps 2 --batch 50 --no-eval");
  const auto all = objects(model);
  ASSERT_EQ(all.size(), 50U);
  EXPECT_EQ(all[0]["probability"].size(), 48U);
}

TEST_F(PredictTest, ClassesWithProbabilities) {
  const std::string model = "softmax --data synthetic:mnist:600";
  train(model + " --epochs 2 --optimizer adam --lr 0.01");
  const auto csv = colla("predict " + model + " --checkpoint run@12 --batch 7 --out out.csv");
  ASSERT_EQ(csv.exitCode, 0) << csv.error;
  EXPECT_THAT(csv.out, IsEmpty());
  const auto lines = linesOf(readText(path("out.csv")));
  EXPECT_THAT(lines.at(0), StartsWith("sample,class,probability_0,probability_1,"));

  const auto all = objects(model + " --batch 11");
  EXPECT_EQ(all.size() + 1, lines.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i]["sample"], i);
    const auto chances = all[i]["probability"].get<std::vector<double>>();
    ASSERT_EQ(chances.size(), 10);
    EXPECT_EQ(std::ranges::max_element(chances) - chances.begin(), all[i]["class"]);
    double sum = 0;
    for (const double chance : chances) sum += chance;
    EXPECT_NEAR(sum, 1, 1e-5);
    EXPECT_THAT(lines[i + 1], StartsWith(fmt::format("{},{},", i, all[i]["class"].get<int>())));
  }
  // The other part has other samples, as many as the data set says.
  EXPECT_EQ(objects(model + " --part train").size(), 600);
}

// The mean of the samples' losses is what an evaluation tells.
TEST_F(PredictTest, LossesOfText) {
  const std::string model =
      "lm --data synthetic:text:3000x60 --embedding 8 --units 8 --projection 8";
  train(model + " --steps 3 --batch 20");
  double sum = 0;
  const auto all = objects(model);
  for (const auto& each : all) {
    sum += each["loss"].get<double>();
    EXPECT_NEAR(std::log(each["perplexity"].get<double>()), each["loss"].get<double>(), 1e-4);
  }
  const auto evaluated = colla("eval " + model + " --checkpoint-dir run --json");
  ASSERT_EQ(evaluated.exitCode, 0) << evaluated.error;
  const auto json = nlohmann::json::parse(evaluated.out);
  const double loss = json["loss"].get<double>();
  EXPECT_NEAR(sum / static_cast<double>(all.size()), loss, 1e-4);
  EXPECT_NEAR(json["metrics"]["perplexity"].get<double>(), std::exp(loss), 0.01);
}

TEST_F(PredictTest, Captions) {
  const std::string model =
      "im2txt --data synthetic:captions:40 --input 75x75 --units 16 --embedding 12";
  // Long enough to say something: all captions begin with "a".
  train(model + " --steps 20 --batch 8 --no-eval --optimizer adam --lr 0.02");
  const auto all = objects(model + " --beam 2 --longest 5");
  ASSERT_FALSE(all.empty());
  for (const auto& each : all) {
    EXPECT_LE(std::ranges::count(each["caption"].get<std::string>(), ' '), 4);
    EXPECT_LT(each["log_probability"].get<double>(), 0);
  }
  // In words, which are the data's own.
  const auto csv = colla("predict " + model + " --checkpoint run --beam 2 --longest 5");
  ASSERT_EQ(csv.exitCode, 0) << csv.error;
  const auto lines = linesOf(csv.out);
  EXPECT_EQ(lines.at(0), "sample,caption,log_probability");
  EXPECT_EQ(lines.size(), all.size() + 1);
  bool anyWord = false;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const std::size_t begin = lines[i].find(',') + 1;
    const std::string caption = lines[i].substr(begin, lines[i].find(',', begin) - begin);
    std::istringstream words(caption);
    for (std::string word; words >> word;) {
      EXPECT_THAT(word, AnyOf("a", "red", "green", "blue", "yellow", "square", "disc", "cross",
                              "above", "beside", StartsWith("<")));
      anyWord = true;
    }
  }
  EXPECT_TRUE(anyWord) << csv.out;
}

TEST_F(PredictTest, RefusesWithOneLine) {
  train("mlp --data synthetic:mnist:60 --steps 1 --no-eval");
  const auto refused = [&](const std::string& arguments, int code) {
    const auto outcome = colla(arguments);
    EXPECT_EQ(outcome.exitCode, code) << arguments << "\n" << outcome.error;
    EXPECT_EQ(linesOf(outcome.error).size(), 1) << outcome.error;
    EXPECT_THAT(outcome.out, IsEmpty());
    return outcome.error;
  };
  const std::string data = " --data synthetic:mnist:60";
  EXPECT_THAT(refused("predict mlp" + data, 2), HasSubstr("CHECKPOINT says which training"));
  EXPECT_THAT(refused("predict mlp --checkpoint nowhere" + data, 1), HasSubstr("nowhere"));
  EXPECT_THAT(refused("predict mlp --hidden 7 --checkpoint run" + data, 1),
              AllOf(HasSubstr("hidden=100"), HasSubstr("hidden=7")));
  EXPECT_THAT(refused("predict snn --checkpoint run" + data, 1), HasSubstr("model mlp"));
  EXPECT_THAT(refused("predict mlp --checkpoint run --out nowhere/x.csv" + data, 1),
              HasSubstr("nowhere/x.csv"));
  EXPECT_THAT(refused("predict mlp --checkpoint run --format xml" + data, 2), HasSubstr("xml"));
  EXPECT_THAT(refused("train resnet50v2 --input 32x32 --data synthetic:cifar10:8 --include-top "
                      "false --steps 1 --log error",
                      2),
              HasSubstr("--include-top false is for colla predict"));

  EXPECT_THAT(refused("export nowhere --out x.safetensors", 1), HasSubstr("nowhere"));
  EXPECT_THAT(refused("export run", 2), HasSubstr("--out"));
  EXPECT_THAT(refused("export run --out nowhere/x.safetensors", 1), HasSubstr("nowhere/"));
}

// What is exported is what was trained, and comes back with --weights.
TEST_F(PredictTest, ExportedWeightsComeBack) {
  const std::string model = "resnet50v2 --input 32x32 --data synthetic:cifar10:12";
  train(model + " --steps 2 --batch 6 --no-eval");
  const auto exported = colla("export run@2 --out w.safetensors");
  ASSERT_EQ(exported.exitCode, 0) << exported.error;
  EXPECT_THAT(exported.out, HasSubstr("w.safetensors: "));
  EXPECT_EQ(colla("export run@2 --out w.safetensors").exitCode, 0);  // Replaces it.
  EXPECT_EQ(colla("export w.safetensors --out x.safetensors").exitCode, 2);
  const auto trained = colla("predict " + model + " --checkpoint run");
  const auto loaded = colla("predict " + model + " --weights w.safetensors");
  EXPECT_EQ(loaded.exitCode, 0) << loaded.error;
  EXPECT_FALSE(loaded.out.empty());
  EXPECT_EQ(loaded.out, trained.out);
  const auto features =
      colla("predict " + model + " --weights w.safetensors --include-top false --pooling max");
  EXPECT_EQ(features.exitCode, 0) << features.error;
  EXPECT_THAT(linesOf(features.out).at(0), HasSubstr(",feature_2047"));
}

}  // namespace
}  // namespace colla::models
