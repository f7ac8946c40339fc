// Bits, distances and places of differences; what counts as a difference and what is only said.
#include "checkpoint/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "checkpoint/report.h"
#include "support/checkpoints.h"

namespace colla::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <typename T>
TensorComparison compareValues(const std::vector<T>& a, const std::vector<T>& b,
                               std::optional<double> tolerance = {}, Shape shape = {},
                               std::size_t values = 0) {
  if (shape.empty()) shape = {static_cast<std::int64_t>(a.size())};
  Tensors left;
  Tensors right;
  left.add<T>("t", shape, a);
  right.add<T>("t", shape, b);
  return compareTensors({.tensor = left.views()[0]}, {.tensor = right.views()[0]}, tolerance,
                        values);
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(CompareTensors, SameBitsAreEqualNansToo) {
  const auto result =
      compareValues<float>({1, kNan, -0.0F, kInfinity}, {1, kNan, -0.0F, kInfinity});
  EXPECT_EQ(result.outcome, Outcome::kEqual);
  EXPECT_EQ(result.differing, 0U);
  EXPECT_EQ(compareValues<float>({}, {}).outcome, Outcome::kEqual);
}

TEST(CompareTensors, TellsHowFarAndWhere) {
  const float next = std::nextafter(1.0F, 2.0F);
  const auto result =
      compareValues<float>({0, 0, 0, 0, 1, 8}, {0, 0, 0, 0, next, 8.5F}, {}, {2, 3});
  EXPECT_EQ(result.outcome, Outcome::kDifferent);
  EXPECT_EQ(result.differing, 2U);
  EXPECT_EQ(result.elements, 6U);
  EXPECT_EQ(result.largestAbsolute, 0.5);
  EXPECT_EQ(result.largestUlp, std::uint64_t{1} << 19);  // 8 and 9 are 2^20 floats apart.
  EXPECT_THAT(result.firstIndex, ElementsAre(1, 1));
  EXPECT_EQ(compareValues<float>({1}, {next}).largestUlp, 1U);
  EXPECT_THAT(compareValues<float>({1}, {next}, {}, Shape{1, 1}).firstIndex, ElementsAre(0, 0));
}

// Both sides, in as many digits as tell them apart.
TEST(CompareTensors, KeepsTheFirstValuesThatDiffer) {
  const auto textsOf = [](const TensorComparison& result) {
    std::vector<std::string> texts;
    for (const auto& [index, a, b] : result.values) {
      texts.push_back(toString(index) + " " + a + " " + b);
    }
    return texts;
  };
  const float next = std::nextafter(0.1F, 1.0F);
  EXPECT_THAT(textsOf(compareValues<float>({1, 0.1F, 3, kNan}, {2, next, 4, 3}, {}, {2, 2}, 2)),
              ElementsAre("[0, 0] 1 2", "[0, 1] 0.1 0.10000001"));
  EXPECT_THAT(textsOf(compareValues<float>({1, kNan, -0.0F}, {1, 2, 0}, {}, {}, 5)),
              ElementsAre("[1] nan (0x7fc00000) 2", "[2] -0 0"));
  EXPECT_THAT(textsOf(compareValues<double>({0.1}, {std::nextafter(0.1, 1.0)}, {}, {}, 1)),
              ElementsAre("[0] 0.1 0.10000000000000002"));
  EXPECT_THAT(textsOf(compareValues<BFloat16>({{0x3f80}}, {{0x3f81}}, {}, {}, 1)),
              ElementsAre("[0] 1 1.0078125"));
  EXPECT_THAT(textsOf(compareValues<std::uint8_t>({65}, {200}, {}, {}, 1)),
              ElementsAre("[0] 65 200"));
  EXPECT_THAT(textsOf(compareValues<float>({1}, {2})), IsEmpty());
}

TEST(CompareTensors, UlpsCountAcrossZeroAndInEveryFloat) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(compareValues<float>({tiny}, {-tiny}).largestUlp, 2U);
  const auto zeros = compareValues<float>({0.0F}, {-0.0F});
  EXPECT_EQ(zeros.outcome, Outcome::kDifferent);  // The bits are not the same,
  EXPECT_EQ(zeros.largestUlp, 0U);                // even if the place is.
  EXPECT_EQ(zeros.largestAbsolute, 0);
  EXPECT_EQ(compareValues<double>({1}, {std::nextafter(1.0, 2.0)}).largestUlp, 1U);
  const double most = std::numeric_limits<double>::max();
  EXPECT_EQ(compareValues<double>({most}, {-most}).largestUlp,
            2 * std::bit_cast<std::uint64_t>(most));
  EXPECT_EQ(compareValues<BFloat16>({{0x3f80}}, {{0x3f82}}).largestUlp, 2U);
  EXPECT_EQ(compareValues<BFloat16>({{0x3f80}}, {{0x4000}}).largestAbsolute, 1);
  EXPECT_EQ(compareValues<Float16>({{0x3c00}}, {{0xbc00}}).largestAbsolute, 2);
  EXPECT_EQ(compareValues<Float16>({{0x0001}}, {{0x0000}}).largestAbsolute, std::ldexp(1, -24));
  EXPECT_EQ(compareValues<Float16>({{0x7bff}}, {{0x0000}}).largestAbsolute, 65504);
}

TEST(CompareTensors, IntegersHaveNoUlps) {
  const auto result = compareValues<std::int64_t>({std::numeric_limits<std::int64_t>::min()},
                                                  {std::numeric_limits<std::int64_t>::max()});
  EXPECT_EQ(result.largestAbsolute, std::ldexp(1, 64));
  EXPECT_FALSE(result.largestUlp);
  const std::int64_t large = std::int64_t{1} << 60;  // Doubles cannot tell it from its neighbour.
  EXPECT_EQ(compareValues<std::int64_t>({large}, {large + 1}).largestAbsolute, 1);
  EXPECT_EQ(compareValues<std::int8_t>({-128}, {127}).largestAbsolute, 255);
  EXPECT_EQ(compareValues<std::uint8_t>({0}, {255}).largestAbsolute, 255);
}

TEST(CompareTensors, ToleranceIsAbsoluteAndIncludesItsLimit) {
  EXPECT_EQ(compareValues<float>({1}, {1.5F}, 0.5).outcome, Outcome::kWithin);
  EXPECT_EQ(compareValues<float>({1}, {1.5F}, 0.5).differing, 1U);
  EXPECT_EQ(compareValues<float>({1}, {1.5F}, 0.49).outcome, Outcome::kDifferent);
  EXPECT_EQ(compareValues<float>({0.0F}, {-0.0F}, 0).outcome, Outcome::kWithin);
  EXPECT_EQ(compareValues<float>({kInfinity}, {1}, 1e300).outcome, Outcome::kDifferent);
}

TEST(CompareTensors, NoToleranceCoversANan) {
  for (const float other : {1.0F, -kNan}) {
    const auto result = compareValues<float>({1, kNan}, {1, other}, 1e300);
    EXPECT_EQ(result.outcome, Outcome::kDifferent);
    EXPECT_TRUE(result.nan);
    EXPECT_THAT(result.firstIndex, ElementsAre(1));
  }
}

class CompareTest : public CheckpointTest {
 protected:
  // Saves under a name, and opens it.
  Source saved(const std::string& name, const Example& example) {
    Directory directory(path(name));
    const auto result = directory.save(example.manifest, example.contents());
    EXPECT_TRUE(result.ok()) << result.status();
    auto source = Source::open(path(name));
    EXPECT_TRUE(source.ok()) << source.status();
    return *std::move(source);
  }
  static const TensorComparison& named(const Comparison& comparison, const std::string& name) {
    return *std::ranges::find(comparison.tensors, name, &TensorComparison::name);
  }
};

TEST_F(CompareTest, EqualCheckpointsAreEqualWhateverWroteThem) {
  Example other(5);
  other.manifest.strategy = "allreduce";
  other.manifest.workers = 4;
  const auto comparison = compare(saved("a", Example(5)), saved("b", other));
  EXPECT_TRUE(comparison.equal());
  EXPECT_THAT(comparison.notes, IsEmpty());
  ASSERT_EQ(comparison.tensors.size(), 6U);
  EXPECT_EQ(named(comparison, "fc.weight").part, Part::kParameter);
  EXPECT_EQ(named(comparison, "bn.running_mean").part, Part::kBuffer);
  EXPECT_EQ(named(comparison, "step").part, Part::kOptimizer);
  EXPECT_THAT(table(comparison), HasSubstr("\nequal: all 6 tensors have the same bits\n"));
}

TEST_F(CompareTest, SaysFirstWhatMakesItHopeless) {
  Example other(5);
  other.manifest.seed = 8;
  other.manifest.slices = 2;
  other.manifest.threads = 3;
  const auto comparison = compare(saved("a", Example(5)), saved("b", other));
  EXPECT_TRUE(comparison.equal());  // Settings are not tensors.
  ASSERT_EQ(comparison.notes.size(), 3U);
  EXPECT_TRUE(table(comparison).starts_with("seed: 7 in A, 8 in B")) << table(comparison);
  EXPECT_THAT(comparison.notes[1], HasSubstr("slices: 4 in A, 2 in B"));
  EXPECT_THAT(comparison.notes[2], HasSubstr("threads: 1 in A, 3 in B"));
}

TEST_F(CompareTest, FindsDifferencesInEveryPart) {
  const auto comparison = compare(saved("a", Example(5)), saved("b", Example(6)));
  EXPECT_FALSE(comparison.equal());
  EXPECT_THAT(comparison.notes, ElementsAre("step: 5 in A, 6 in B"));
  EXPECT_THAT(named(comparison, "fc.weight").firstIndex, ElementsAre(1, 2));
  EXPECT_EQ(named(comparison, "bn.running_mean").outcome, Outcome::kDifferent);
  EXPECT_EQ(named(comparison, "fc.bias/exp_avg").outcome, Outcome::kDifferent);
  EXPECT_THAT(named(comparison, "step").firstIndex, IsEmpty());  // A scalar has no index.
  EXPECT_TRUE(compare(saved("a", Example(5)), saved("b", Example(6)), 1).equal());
}

TEST_F(CompareTest, MissingTensorsShapesAndTypesAreDifferences) {
  Example a(5);
  a.parameters.add<float>("extra", {1}, {1})
      .add<float>("shape", {2, 1}, {1, 2})
      .add<float>("type", {1}, {1});
  Example b(5);
  b.optimizer.add<float>("extra", {1}, {1});
  b.parameters.add<float>("shape", {1, 2}, {1, 2}).add<std::int32_t>("type", {1}, {1});
  const auto comparison = compare(saved("a", a), saved("b", b), 1e9);
  EXPECT_FALSE(comparison.equal());
  EXPECT_EQ(named(comparison, "extra").outcome, Outcome::kOnlyInA);
  EXPECT_EQ(named(comparison, "shape").outcome, Outcome::kOtherShape);
  EXPECT_EQ(named(comparison, "type").outcome, Outcome::kOtherType);
  EXPECT_EQ(named(comparison, "type").type, "float32 / int32");
  EXPECT_EQ(std::ranges::count(comparison.tensors, Outcome::kOnlyInB, &TensorComparison::outcome),
            1);
  EXPECT_THAT(table(comparison), HasSubstr("\ndifferent: 4 of 10 tensors"));
}

TEST_F(CompareTest, ASingleFileIsComparedWithTheModel) {
  const Source a = saved("a", Example(5));
  const auto file = Source::open(path("a/step-00000005/model.safetensors"));
  ASSERT_TRUE(file.ok());
  const auto comparison = compare(a, *file);
  EXPECT_TRUE(comparison.equal());
  EXPECT_EQ(comparison.tensors.size(), 4U);
  EXPECT_EQ(named(comparison, "fc.bias").part, Part::kParameter);
  EXPECT_THAT(comparison.notes, ElementsAre(HasSubstr("B is a single file")));
}

TEST_F(CompareTest, JsonSaysTheSame) {
  const auto json =
      nlohmann::json::parse(toJson(compare(saved("a", Example(5)), saved("b", Example(6)))));
  EXPECT_EQ(json["equal"], false);
  EXPECT_EQ(json["notes"].size(), 1U);
  EXPECT_THAT(json["summary"].get<std::string>(), HasSubstr("different: 6 of 6"));
  const auto& first = json["tensors"][0];
  EXPECT_EQ(first["name"], "fc.bias");
  EXPECT_EQ(first["result"], "different");
  EXPECT_EQ(first["largest_absolute"], 1.0);
  EXPECT_EQ(first["first_index"], nlohmann::json::array({0}));
  EXPECT_TRUE(first["largest_ulp"].is_number_unsigned());
}

TEST_F(CompareTest, SourcesAreFoundWhereUsersPointTo) {
  Directory directory(path("run/checkpoints"));
  for (const std::int64_t step : {5, 6}) save(directory, step);
  const auto stepAt = [this](const std::string& text) -> std::int64_t {
    const auto source = Source::open(path(text));
    return source.ok() ? source->checkpoint()->manifest().step : -1;
  };
  EXPECT_EQ(stepAt("run"), 6);
  EXPECT_EQ(stepAt("run@5"), 5);
  EXPECT_EQ(stepAt("run/checkpoints"), 6);
  EXPECT_EQ(stepAt("run/checkpoints@5"), 5);
  EXPECT_EQ(stepAt("run/checkpoints/step-00000005"), 5);
  std::filesystem::rename(path("run"), path("me@7"));
  EXPECT_EQ(stepAt("me@7"), 6);
  EXPECT_EQ(stepAt("me@7@5"), 5);

  const auto messageOf = [this](const std::string& text) {
    return std::string(Source::open(path(text)).status().message());
  };
  EXPECT_THAT(messageOf("me@7@8"), HasSubstr("there is no step 8"));
  EXPECT_THAT(messageOf("me@x"), HasSubstr("what follows the @ is neither a step nor best"));
  EXPECT_THAT(messageOf("me@-1"), HasSubstr("what follows the @ is neither a step nor best"));
  EXPECT_THAT(messageOf("gone"), HasSubstr("there is no file or folder " + path("gone")));
  EXPECT_THAT(messageOf("me@7/checkpoints/step-00000005@5"), HasSubstr("leave out @5"));
  std::filesystem::create_directory(path("empty"));
  EXPECT_THAT(messageOf("empty"), HasSubstr("there is no checkpoint in"));
  std::filesystem::remove(path("me@7/checkpoints/step-00000005/manifest.json"));
  EXPECT_THAT(messageOf("me@7/checkpoints/step-00000005"), HasSubstr("manifest.json"));
}

TEST_F(CompareTest, InspectCountsAndMeasures) {
  Example example(5);
  example.parameters.add<float>("\x1b[2Jevil", {2}, {3, 4});
  const Source source = saved("a", example);
  const Inspection inspection = inspect(source);
  EXPECT_EQ(inspection.parameters, 10U);  // Not the buffers, not the optimizer's.
  const auto find = [&](const std::string& name) {
    return *std::ranges::find(inspection.tensors, name, &TensorSummary::name);
  };
  EXPECT_EQ(find("\x1b[2Jevil").norm, 5);
  EXPECT_DOUBLE_EQ(find("fc.bias").norm, std::sqrt(26.0));
  EXPECT_EQ(find("bn.num_batches_tracked").norm, 5);
  const std::string text = table(inspection);
  EXPECT_THAT(text, HasSubstr("5 (epoch 0, 0 samples into it)"));
  EXPECT_THAT(text, HasSubstr("model.safetensors"));
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  const auto json = nlohmann::json::parse(toJson(inspection));
  EXPECT_EQ(json["manifest"]["step"], 5);
  EXPECT_EQ(json["parameters"], 10);
  EXPECT_EQ(json["tensors"].size(), 7U);
}

}  // namespace
}  // namespace colla::checkpoint
