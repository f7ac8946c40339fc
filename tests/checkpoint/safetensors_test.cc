// The header: what we write is deterministic and readable, and what is wrong is refused with a
// name.
#include "checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/tensor_file.h"
#include "support/checkpoints.h"

namespace colla::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A file with this JSON and that many bytes of data.
Result<Header> parse(const std::string& json, std::size_t data = 0) {
  const std::uint64_t length = json.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof(length));
  file += json + std::string(data, 'x');
  return parseHeader(std::as_bytes(std::span(file)), file.size());
}

void expectRefused(const std::string& json, std::size_t data, const std::string& reason) {
  const auto header = parse(json, data);
  ASSERT_FALSE(header.ok()) << json;
  EXPECT_THAT(std::string(header.status().message()), HasSubstr(reason)) << json;
}

using SafetensorsTest = CheckpointTest;

TEST_F(SafetensorsTest, EveryTypeSurvivesTheFile) {
  Tensors tensors;
  tensors.add<float>("f32", {2}, {1.5F, -2})
      .add<double>("f64", {1, 1}, {0.1})
      .add<BFloat16>("bf16", {3}, {{1}, {2}, {3}});
  tensors.add<Float16>("f16", {1}, {{0x3c00}})
      .add<std::int8_t>("i8", {2}, {-1, 1})
      .add<std::int16_t>("i16", {1}, {-300});
  tensors.add<std::int32_t>("i32", {}, {1 << 30})
      .add<std::int64_t>("i64", {}, {-1})
      .add<std::uint8_t>("u8", {1}, {255});
  tensors.add<float>("nothing", {3, 0}, {});
  const bool yes = true;
  std::vector<TensorView> views(tensors.views().begin(), tensors.views().end());
  views.push_back({"bool", DataType::kBool, {1}, std::as_bytes(std::span(&yes, 1))});

  const auto entry = writeTensorFile(scratch_.path(), "all.safetensors", views);
  ASSERT_TRUE(entry.ok()) << entry.status();
  const auto file = TensorFile::open(path("all.safetensors"));
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(file->tensors().size(), views.size());
  for (const TensorView& view : views) {
    const auto found = std::ranges::find(file->tensors(), view.name, &TensorView::name);
    ASSERT_NE(found, file->tensors().end()) << view.name;
    EXPECT_EQ(found->type, view.type) << view.name;
    EXPECT_EQ(found->shape, view.shape) << view.name;
    EXPECT_TRUE(std::ranges::equal(found->bytes, view.bytes)) << view.name;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(found->bytes.data()) % sizeOf(view.type), 0U)
        << view.name;
  }
}

TEST_F(SafetensorsTest, SameTensorsInAnyOrderGiveTheSameHeader) {
  Tensors one;
  one.add<float>("b", {1}, {1}).add<std::int64_t>("a", {1}, {1}).add<float>("A", {2}, {1, 2});
  Tensors two;
  two.add<float>("A", {2}, {1, 2}).add<float>("b", {1}, {1}).add<std::int64_t>("a", {1}, {1});
  const auto first = encodeHeader(one.views());
  const auto second = encodeHeader(two.views());
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->bytes, second->bytes);
  EXPECT_THAT(first->order, ElementsAre(1, 2, 0));  // Wide elements first, then by name.
  EXPECT_EQ(first->bytes.size() % kDataAlignment, 0U);
}

TEST_F(SafetensorsTest, NamesMayHoldAnythingThatIsText) {
  Tensors tensors;
  tensors.add<float>("quote\" \\ \n ü 塔", {1}, {1}).add<float>("", {1}, {2});
  ASSERT_TRUE(writeTensorFile(scratch_.path(), "f", tensors.views()).ok());
  const auto file = TensorFile::open(path("f"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->tensors()[1].name, "quote\" \\ \n ü 塔");
}

TEST_F(SafetensorsTest, RefusesToWriteWhatCouldNotBeRead) {
  Tensors twice;
  twice.add<float>("a", {1}, {1}).add<float>("a", {1}, {1});
  EXPECT_THAT(std::string(encodeHeader(twice.views()).status().message()),
              HasSubstr("\"a\" occurs twice"));
  Tensors shape;
  shape.add<float>("a", {3}, {1});
  EXPECT_THAT(std::string(encodeHeader(shape.views()).status().message()),
              HasSubstr("tensor \"a\" has 4 bytes"));
  Tensors negative;
  negative.add<float>("a", {-1}, {1});
  EXPECT_FALSE(encodeHeader(negative.views()).ok());
  for (const char* name : {"__metadata__", "\xff"}) {
    Tensors reserved;
    reserved.add<float>(name, {1}, {1});
    EXPECT_FALSE(encodeHeader(reserved.views()).ok()) << name;
  }
}

TEST(SafetensorsHeader, RefusesWhatTheFormatDoesNotHave) {
  expectRefused(
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
      8, "\"a\" occurs twice");
  expectRefused(R"({"a":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}})", 1,
                "tensor \"a\" has the type \"F8_E4M3\"");
  expectRefused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})", 8,
                "tensor \"a\" has 8 bytes");
  expectRefused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 3,
                "tensor \"a\" is said to end at byte 4");
  expectRefused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 5,
                "1 bytes of data belong to no tensor");
  expectRefused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "tensor \"a\"");
  expectRefused(
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
      4, "tensor \"b\" is said to be at bytes 0 to 4 of the data, but must start at 4");
  expectRefused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8, "must start at 0");
  expectRefused(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0,
                "tensor \"a\" has 0 bytes");
  expectRefused(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4,
                "negative number for its shape");
  expectRefused(R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", 4,
                "a fraction for its shape");
  expectRefused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", 4,
                "a number for its data_offsets");
  expectRefused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4, "lacks");
  expectRefused(R"({"a":{"dtype":"F32","shape":[1]}})", 4, "tensor \"a\" lacks");
  expectRefused(R"({"a":{"dtype":"F32","dtype":"F32"}})", 4, "\"dtype\" twice");
  expectRefused(R"({"a":{"more":1}})", 4, "\"more\"");
  expectRefused(R"({"a":[]})", 0, "a list");
  expectRefused(R"([1])", 0, "a list");
  expectRefused(R"({"__metadata__":{"a":1}})", 0, "a number");
  expectRefused(R"({} x)", 0, "not JSON");
  expectRefused(std::string(1000, '['), 0, "a list");
}

TEST(SafetensorsHeader, RefusesLengthsThatCannotBe) {
  EXPECT_FALSE(parseHeader({}, 0).ok());
  for (const std::uint64_t length : {std::uint64_t{3}, kMaxHeader + 1, ~std::uint64_t{0}}) {
    std::string file(reinterpret_cast<const char*>(&length), sizeof(length));
    file += "{}";
    EXPECT_FALSE(parseHeader(std::as_bytes(std::span(file)), file.size()).ok()) << length;
  }
}

TEST(SafetensorsHeader, TakesWhatOthersWrite) {
  const auto header = parse(
      R"({"__metadata__":{"format":"pt"},"a":{"shape":[],"data_offsets":[0,8],"dtype":"I64"}}   )",
      8);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->metadata.at("format"), "pt");
  EXPECT_EQ(header->tensors.at(0).type, DataType::kInt64);
  EXPECT_TRUE(parse("{}").ok());
}

TEST_F(SafetensorsTest, ErrorNamesTheFile) {
  writeText(path("foreign"), "PK\x03\x04 something else entirely, such as a zip file");
  const auto file = TensorFile::open(path("foreign"));
  ASSERT_FALSE(file.ok());
  EXPECT_THAT(std::string(file.status().message()),
              HasSubstr(path("foreign") + ": is not a safetensors file"));
  EXPECT_FALSE(TensorFile::open(scratch_.path()).ok());
  EXPECT_FALSE(TensorFile::open("/dev/null").ok());
  EXPECT_FALSE(TensorFile::open(path("gone")).ok());
  writeText(path("empty"), "");
  EXPECT_FALSE(TensorFile::open(path("empty")).ok());
}

}  // namespace
}  // namespace colla::checkpoint
