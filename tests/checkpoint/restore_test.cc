// A checkpoint goes back into a model as a whole, or not at all.
#include "checkpoint/restore.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/checkpoints.h"

namespace colla::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RestoreTest : public ::testing::Test {
 protected:
  RestoreTest() { saved_.add<float>("a", {2}, {1, 2}).add<std::int64_t>("b", {}, {3}); }

  Status restoreInto(const std::vector<Target>& targets) {
    return restore(saved_.views(), targets);
  }
  Target a(const Shape& shape = {2}, DataType type = DataType::kFloat32) {
    return {"a", type, shape, std::as_writable_bytes(std::span(a_))};
  }
  Target b(const std::string& name = "b") {
    return {name, DataType::kInt64, {}, std::as_writable_bytes(std::span(b_))};
  }

  Tensors saved_;
  std::vector<float> a_ = {0, 0};
  std::vector<std::int64_t> b_ = {0};
};

TEST_F(RestoreTest, FillsEverything) {
  ASSERT_TRUE(restoreInto({b(), a()}).ok());
  EXPECT_THAT(a_, ElementsAre(1, 2));
  EXPECT_THAT(b_, ElementsAre(3));
}

TEST_F(RestoreTest, AnotherModelIsRefusedByNameAndNothingIsTouched) {
  const auto messageOf = [this](const std::vector<Target>& targets) {
    const Status status = restoreInto(targets);
    EXPECT_EQ(status.code(), StatusCode::kMismatch);
    return std::string(status.message());
  };
  EXPECT_EQ(messageOf({a({1, 2}), b()}),
            "\"a\" is float32 [2] in the checkpoint, but must be float32 [1, 2]");
  EXPECT_EQ(messageOf({a({2}, DataType::kInt32), b()}),
            "\"a\" is float32 [2] in the checkpoint, but must be int32 [2]");
  EXPECT_EQ(messageOf({a()}), "\"b\" of the checkpoint has no place");
  EXPECT_EQ(messageOf({a(), b("c")}), "the checkpoint has no \"c\" (and 1 more that do not fit)");
  EXPECT_THAT(a_, ElementsAre(0, 0));
}

}  // namespace
}  // namespace colla::checkpoint
