#include "models/kernels/letters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/kernels/samples.h"

namespace colla::models::kernels {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

TEST(LettersTest, StandForWhatIsDocumented) {
  for (int letter = 0; letter < kLetters; ++letter) {
    std::vector<double> vector(kClasses);
    const Shares shares = sharesOf(letter);
    for (int i = 0; i < shares.count; ++i) vector[shares.classes[i]] += shares.weight;
    EXPECT_EQ(vector, classVector(letter)) << letter;
  }
}

TEST(LettersTest, KeepsThemWithPaddingBehind) {
  const std::vector<std::uint8_t> letters = {5, 0, 24, 0, 0, 0, 0, 0, 0, 0, 7, 1, 1, 1, 1};
  const auto made = *Letters::create(letters, 3, 5);
  EXPECT_EQ(made->samples(), 3);
  EXPECT_EQ(made->length(), 5);
  EXPECT_EQ(made->used(0), 3);
  EXPECT_EQ(made->used(1), 0);
  EXPECT_EQ(made->used(2), 5);
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(std::span(made->sample(i), 5),
                ElementsAreArray(std::span(letters).subspan(i * 5, 5)));
    for (int j = 0; j < Letters::kMargin; ++j) EXPECT_EQ(made->sample(i)[5 + j], 0);
  }
}

TEST(LettersTest, WhatIsNoLetterIsRefusedWithItsPlace) {
  const std::vector<std::uint8_t> letters = {1, 2, 3, 4, 25, 6};
  const auto made = Letters::create(letters, 2, 3);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(made.status().message()), HasSubstr("25 at place 1 of sample 1"));
}

}  // namespace
}  // namespace colla::models::kernels
