// Checkpoints of TensorFlow's, made by hand; tests/tensorflow has TensorFlow write them.
#include "foreign/bundle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "foreign/open.h"
#include "support/checkpoints.h"
#include "support/error_of.h"
#include "support/foreign_bundles.h"

namespace colla::foreign {
namespace {

using namespace std::string_literals;
using checkpoint::Shape;
using checkpoint::valuesOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class BundleTest : public checkpoint::CheckpointTest {
 protected:
  std::string prefix() const { return path("model.ckpt-7"); }

  checkpoint::Listing opened() const {
    auto source = open(prefix());
    EXPECT_TRUE(source.ok()) << source.status();
    return *std::move(source);
  }
  static const checkpoint::TensorView& named(const checkpoint::Listing& source,
                                             std::string_view name) {
    return listed(source, name).tensor;
  }
  static const checkpoint::ListedTensor& listed(const checkpoint::Listing& source,
                                                std::string_view name) {
    for (const auto& one : source.tensors) {
      if (one.tensor.name == name) return one;
    }
    ADD_FAILURE() << "there is no " << name;
    return source.tensors.front();
  }
  std::string errorAfter(const BundleWriter& writer) const {
    writer.write(prefix());
    return test::errorOf(open(prefix()));
  }
};

TEST_F(BundleTest, ReadsEveryType) {
  BundleWriter writer;
  writer.add<float>("dense/kernel", 1, {2, 3}, {1, 2, 3, 4, 5, 6});
  writer.add<std::int64_t>("global_step", 9, {}, {7});
  writer.add<std::uint16_t>("half", 19, {1}, {0x3c00});
  writer.add<std::uint16_t>("bfloat", 14, {1}, {0x3f80});
  writer.add<std::uint32_t>("seed", 22, {2}, {0xffffffffU, 3});
  writer.add<std::uint16_t>("small", 17, {2}, {65535, 3});
  writer.add<float>("complex", 8, {2}, {1, 2, 3, 4});
  writer.add<std::uint8_t>("yes", 10, {1}, {1});
  writer.add<float>("nothing", 1, {0, 5}, {});
  writer.add<std::uint8_t>("variant", 21, {}, {1, 2, 3});
  writer.write(prefix());
  const auto source = opened();
  EXPECT_EQ(source.tensors.size(), 10U);
  EXPECT_EQ(named(source, "dense/kernel").shape, (Shape{2, 3}));
  EXPECT_THAT(valuesOf<float>(named(source, "dense/kernel")), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(named(source, "global_step").shape, Shape());
  EXPECT_EQ(named(source, "half").type, DataType::kFloat16);
  EXPECT_EQ(named(source, "bfloat").type, DataType::kBFloat16);
  EXPECT_EQ(listed(source, "seed").foreignType, "uint32");
  EXPECT_THAT(valuesOf<std::int64_t>(named(source, "seed")), ElementsAre(0xffffffffLL, 3));
  EXPECT_THAT(valuesOf<std::int32_t>(named(source, "small")), ElementsAre(65535, 3));
  EXPECT_EQ(named(source, "complex").shape, (Shape{2, 2}));
  EXPECT_EQ(named(source, "yes").type, DataType::kBool);
  EXPECT_EQ(named(source, "nothing").elements(), 0U);
  EXPECT_EQ(listed(source, "variant").foreignType, "type 21");
}

TEST_F(BundleTest, IsNamedByItsPrefixItsFilesOrItsDirectory) {
  BundleWriter writer;
  writer.add<float>("w", 1, {1}, {1});
  for (const bool compressed : {false, true}) {
    writer.write(prefix(), compressed);
    for (const std::string name : {".index", "", ".data-00000-of-00001"}) {
      const auto source = open(prefix() + name);
      ASSERT_TRUE(source.ok()) << source.status();
      EXPECT_EQ(source->path, prefix());
    }
  }
  writeBytes(path("checkpoint"),
             "model_checkpoint_path: \"model.ckpt-7\"\nall_model_checkpoint_paths: \"x\"\n");
  const auto newest = open(path(""));
  ASSERT_TRUE(newest.ok()) << newest.status();
  EXPECT_THAT(valuesOf<float>(named(*newest, "w")), ElementsAre(1));
}

TEST_F(BundleTest, PutsPartitionedVariablesTogether) {
  BundleWriter writer;
  const SliceExtents top = {{0, 1}, {}};
  const SliceExtents left = {{1, 2}, {0, 1}};
  const SliceExtents right = {{1, 2}, {1, 2}};
  writer.entry("w") = {.type = 1, .shape = {3, 3}, .slices = {top, left, right}};
  writer.add<float>(sliceKey("w", top), 1, {1, 3}, {1, 2, 3});
  writer.add<float>(sliceKey("w", left), 1, {2, 1}, {4, 7});
  writer.add<float>(sliceKey("w", right), 1, {2, 2}, {5, 6, 8, 9});
  const SliceExtents large = {{100'000, 2}};
  const SliceExtents rest = {{0, 100'000}};
  writer.entry("rows\xff") = {.type = 22, .shape = {100'002}, .slices = {large, rest}};
  writer.add<std::uint32_t>(sliceKey("rows\xff", large), 22, {2}, {8, 9});
  writer.add<std::uint32_t>(sliceKey("rows\xff", rest), 22, {100'000},
                            std::vector<std::uint32_t>(100'000, 5));
  writer.write(prefix());
  const auto source = opened();
  EXPECT_EQ(source.tensors.size(), 2U);
  EXPECT_THAT(valuesOf<float>(named(source, "w")), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9));
  const auto rows = valuesOf<std::int64_t>(named(source, "rows\xff"));
  EXPECT_THAT((std::vector(rows.end() - 3, rows.end())), ElementsAre(5, 8, 9));

  const auto errorWith = [&](const auto& change) {
    BundleWriter other = writer;
    change(other);
    return errorAfter(other);
  };
  EXPECT_THAT(errorWith([&](auto& w) { w.entry("w").slices.pop_back(); }),
              HasSubstr("tensor w: its slices do not cover it"));
  EXPECT_THAT(errorWith([&](auto& w) {
                w.entry("w").slices.push_back({{0, 3}, {0, 3}});
              }),
              HasSubstr("one of its slices is missing"));
  EXPECT_THAT(errorWith([&](auto& w) { w.entry("w").slices[1][0].start = 2; }),
              AnyOf(HasSubstr("missing"), HasSubstr("not inside")));
  EXPECT_THAT(errorWith([&](auto& w) {
                w.entry(sliceKey("w", left)).shape = {1, 2};
              }),
              HasSubstr("does not fit it"));
  EXPECT_THAT(errorWith([&](auto& w) {
                w.entry("w").shape = {3, 1LL << 50};
              }),
              HasSubstr("larger than the files"));
}

// As TensorFlow's documentation of the format has it; compared with its own files in
// tests/tensorflow.
TEST_F(BundleTest, KeysOfSlices) {
  EXPECT_EQ(sliceKey("w", {}), "\0w\0\x01\0"s);
  EXPECT_EQ(sliceKey("w", {{0, 3}, {}}), "\0w\0\x01\x01\x02\x80\x83\x80\x7f"s);
  EXPECT_EQ(sliceKey("a\0b"s, {{64, 100'000}}),
            "\0a\0\xff"s
            "b\0\x01\x01\x01\xc0\x40\xe1\x86\xa0"s);
}

// Contract: whatever is cut off or turned is one clear line, never tensors that are wrong.
TEST_F(BundleTest, DamageIsFound) {
  BundleWriter writer;
  writer.add<float>("dense/kernel", 1, {8}, {1, 2, 3, 4, 5, 6, 7, 8});
  writer.add<std::int32_t>("step", 3, {}, {7});
  writer.write(prefix());
  for (const std::string& file : {prefix() + ".index", prefix() + ".data-00000-of-00001"}) {
    const std::string whole = readText(file);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      writeBytes(file, whole.substr(0, size));
      EXPECT_THAT(test::errorOf(open(prefix())), StartsWith(prefix())) << size;
    }
    for (std::size_t at = 0; at < whole.size(); ++at) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
      writeBytes(file, damaged);
      const auto source = open(prefix());
      // A table has a block of its own for filters, and padding, which nobody reads.
      if (source.ok()) {
        EXPECT_TRUE(file.ends_with(".index")) << at;
        EXPECT_THAT(valuesOf<float>(named(*source, "dense/kernel")),
                    ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
      } else {
        const std::string message(source.status().message());
        EXPECT_THAT(message, StartsWith(prefix()));
        EXPECT_EQ(message.find('\n'), std::string::npos) << message;
      }
    }
    writeBytes(file, whole);
  }
}

TEST_F(BundleTest, SaysWhatIsWrong) {
  BundleWriter writer;
  writer.add<float>("w", 1, {2}, {1, 2});
  const auto errorWith = [&](const auto& change) {
    BundleWriter other = writer;
    change(other);
    return errorAfter(other);
  };
  EXPECT_EQ(errorWith([](auto& w) { w.data()[0] ^= 1; }),
            prefix() + ": tensor w: its data is damaged (CRC)");
  EXPECT_THAT(errorWith([](auto& w) { w.data().pop_back(); }),
              HasSubstr("tensor w: its data file ends before it: 00000-of-00001 has 7 bytes"));
  EXPECT_THAT(errorWith([](auto& w) { w.entry("w").shape = {3}; }),
              HasSubstr("it has 8 bytes, which do not fit its shape [3]"));
  EXPECT_THAT(errorWith([](auto& w) { w.entry("w").shard = 1; }),
              HasSubstr("it is said to be in shard 1 of 1"));
  EXPECT_THAT(errorWith([](auto& w) {
                w.entry("w").shape = {1LL << 40, 1LL << 40};
              }),
              HasSubstr("impossible numbers"));
  EXPECT_THAT(errorWith([](auto& w) { w.entry("w").shape = {-2}; }),
              HasSubstr("a dimension is negative"));
  writer.write(prefix(), false, headerOf(2));
  EXPECT_THAT(test::errorOf(open(prefix())),
              HasSubstr("model.ckpt-7.data-00000-of-00002: No such file"));
  writer.write(prefix(), false, headerOf(1, 1));
  EXPECT_THAT(test::errorOf(open(prefix())), HasSubstr("written by a big-endian machine"));
  writeBytes(prefix() + ".index", tableOf({{"some", "thing"}}));
  EXPECT_THAT(test::errorOf(open(prefix())), HasSubstr("is a table, but not of a checkpoint"));
  writeBytes(prefix() + ".index", tableOf({}));
  EXPECT_THAT(test::errorOf(open(prefix())), HasSubstr(".index is empty"));
  std::filesystem::remove(prefix() + ".index");
  EXPECT_THAT(test::errorOf(open(prefix() + ".data-00000-of-00001")),
              HasSubstr("cannot open " + prefix() + ".index: No such file"));
  EXPECT_THAT(test::errorOf(open(prefix())), HasSubstr("there is no file or folder " + prefix()));
}

}  // namespace
}  // namespace colla::foreign
