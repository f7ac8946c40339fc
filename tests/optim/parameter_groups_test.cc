#include "optim/parameter_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace colla::optim {
namespace {

using ::testing::HasSubstr;

const std::vector<std::string> kNames = {"embedding.weight", "hidden.weight", "hidden.bias",
                                         "out.weight", "out.bias"};

TEST(ParameterGroupsTest, PatternsSayWhichParametersAGroupHas) {
  const std::vector<ParameterGroup> groups = {{.parameters = "*.bias", .weightDecay = 0},
                                              {.parameters = "out.w*", .lrFactor = 0.5},
                                              {.parameters = "hidden.weigh?", .frozen = true}};
  const auto found = groupsOf(groups, kNames);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, (std::vector<std::optional<std::size_t>>{std::nullopt, 2, 0, 1, 0}));
}

TEST(ParameterGroupsTest, OneWithoutParametersIsRefusedWithTheNamesThereAre) {
  const std::vector<ParameterGroup> groups = {{.parameters = "hiden.*"}};
  const auto found = groupsOf(groups, kNames);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.status().message(),
            "group \"hiden.*\" has no parameter: those that the model trains are embedding.weight, "
            "hidden.weight, hidden.bias, out.weight, out.bias");
}

TEST(ParameterGroupsTest, AParameterInTwoOfThemIsRefused) {
  const std::vector<ParameterGroup> groups = {{.parameters = "out.*"}, {.parameters = "*.bias"}};
  const auto found = groupsOf(groups, kNames);
  ASSERT_FALSE(found.ok());
  EXPECT_THAT(found.status().message(),
              HasSubstr("parameter \"out.bias\" is in two groups, \"out.*\" and \"*.bias\""));
}

TEST(ParameterGroupsTest, OptionsComeOnTopOfTheOtherParametersOptimizer) {
  const OptimizerOptions base = AdamW{.lr = 0.25, .beta1 = 0.8, .weightDecay = 0.1};
  EXPECT_EQ(optimizerOf({.parameters = "*", .lrFactor = 0.5, .weightDecay = 0}, base),
            OptimizerOptions(AdamW{.lr = 0.125, .beta1 = 0.8, .weightDecay = 0}));
  EXPECT_EQ(optimizerOf({.parameters = "*", .optimizer = Sgd{.lr = 1}, .lrFactor = 0.5}, base),
            OptimizerOptions(Sgd{.lr = 0.5}));
}

TEST(ParameterGroupsTest, WhatCannotBeIsRefusedWithTheGroup) {
  const auto refusal = [](const ParameterGroup& group) {
    return std::string(validate(group).message());
  };
  EXPECT_THAT(refusal({}), HasSubstr("no pattern"));
  EXPECT_THAT(refusal({.parameters = "a", .lrFactor = 2, .frozen = true}),
              HasSubstr("group \"a\" is frozen: it takes no options"));
  EXPECT_THAT(refusal({.parameters = "a", .lrFactor = -1}), HasSubstr("lrFactor is -1"));
  EXPECT_THAT(refusal({.parameters = "a", .weightDecay = -1}),
              ::testing::AllOf(HasSubstr("group \"a\""), HasSubstr("weight_decay is -1")));
}

TEST(ParameterGroupsTest, TextSaysWhatDiffers) {
  EXPECT_EQ(toString(ParameterGroup{.parameters = "*.bias", .lrFactor = 0.1, .weightDecay = 0}),
            "\"*.bias\": lr_factor=0.1 weight_decay=0");
  EXPECT_EQ(toString(ParameterGroup{.parameters = "a.*", .frozen = true}), "\"a.*\": frozen");
  EXPECT_THAT(toString(ParameterGroup{.parameters = "a.*", .optimizer = Sgd{.lr = 0.5}}),
              HasSubstr("\"a.*\": sgd lr=0.5 "));
}

}  // namespace
}  // namespace colla::optim
