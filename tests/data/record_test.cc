#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "data/record/coco.h"
#include "data/record/example.h"
#include "data/record/record_file.h"
#include "support/error_of.h"
#include "support/scratch.h"

namespace colla::data {
namespace {

using namespace std::string_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::span<const std::byte> bytesOf(std::string_view text) { return std::as_bytes(std::span(text)); }
std::string textOf(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class RecordTest : public ::testing::Test {
 protected:
  Scratch folder_;
  const std::string file_ = folder_.path() + "/some.tfrecord";

  std::string write(const std::vector<std::string>& records) {
    auto writer = RecordWriter::create(file_);
    EXPECT_TRUE(writer.ok()) << writer.status();
    for (const auto& record : records) EXPECT_TRUE(writer->append(bytesOf(record)).ok());
    EXPECT_FALSE(std::filesystem::exists(file_)) << "it gets its name when it is complete";
    EXPECT_TRUE(writer->close().ok());
    return readText(file_);
  }
  std::string openErrorOf(const std::string& contents) {
    return test::errorOf(RecordFile::open(folder_.write("some.tfrecord", contents)));
  }
};

TEST_F(RecordTest, TheFormatIsTensorFlows) {
  EXPECT_EQ(write({"hello"}), "\x05\0\0\0\0\0\0\0\xea\xb2\x04\x3ehello\xbb\x1f\x1c\x19"s);
}

TEST_F(RecordTest, ReadsByNumber) {
  write({"first", "", std::string(100'000, 'x'), "last"});
  const auto file = RecordFile::open(file_);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(file->size(), 4);
  EXPECT_EQ(textOf(*file->read(3)), "last");
  EXPECT_EQ(textOf(*file->read(0)), "first");
  EXPECT_EQ(textOf(*file->read(1)), "");
  EXPECT_EQ(file->read(2)->size(), 100'000);
  EXPECT_THAT(std::filesystem::directory_iterator(folder_.path())->path().filename(),
              "some.tfrecord");
}

// Contract: damage names the file and the record.
TEST_F(RecordTest, FindsDamage) {
  const std::string whole = write({"hello", "world"});
  for (std::size_t size = 1; size < whole.size(); ++size) {
    if (size == whole.size() / 2) continue;  // Exactly the first record.
    EXPECT_EQ(openErrorOf(whole.substr(0, size)), file_ + ": record " +
                                                      (size < whole.size() / 2 ? "0" : "1") +
                                                      ": the file ends inside of it");
  }
  EXPECT_EQ(openErrorOf(""), file_ + ": the file is empty");
  std::string damaged = whole;
  damaged[21 + 3] ^= 1;  // Of the second length.
  EXPECT_THAT(openErrorOf(damaged), HasSubstr("record 1: its length is damaged"));
  EXPECT_THAT(openErrorOf("{\"images\": [], \"annotations\": []}"),
              HasSubstr("record 0: no TFRecord file"));
  damaged = whole;
  damaged[21 + 13] ^= 1;  // Of the second data.
  ASSERT_EQ(openErrorOf(damaged), "fine");
  const auto file = RecordFile::open(file_);
  EXPECT_TRUE(file->read(0).ok());
  EXPECT_EQ(file->read(1).status().message(), file_ + ": record 1: its data is damaged (CRC)");
  std::filesystem::resize_file(file_, 30);
  EXPECT_THAT(std::string(file->read(1).status().message()), HasSubstr("has become shorter"));
  EXPECT_EQ(RecordFile::open(folder_.path() + "/none").status().code(), StatusCode::kNotFound);
}

TEST_F(RecordTest, ReadsOneAfterAnother) {
  const std::string whole = write({"first", "", std::string(100'000, 'x'), "last"});
  auto reader = RecordReader::open(file_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  for (const std::string& expected : {"first"s, ""s, std::string(100'000, 'x'), "last"s}) {
    const auto record = reader->next();
    ASSERT_TRUE(record.ok() && *record) << record.status();
    EXPECT_EQ(textOf({(*record)->begin(), (*record)->end()}), expected);
  }
  for (int again = 0; again < 2; ++again) {
    const auto end = reader->next();
    EXPECT_TRUE(end.ok() && !*end) << end.status();
  }
  folder_.write("some.tfrecord", "");
  auto empty = RecordReader::open(file_);
  ASSERT_TRUE(empty.ok());
  EXPECT_FALSE(*empty->next());
  folder_.write("some.tfrecord", whole.substr(0, whole.size() - 1));
  auto cut = RecordReader::open(file_);
  ASSERT_TRUE(cut.ok());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(cut->next().ok());
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(test::errorOf(cut->next()), file_ + ": record 3: the file ends inside of it");
  }
}

TEST_F(RecordTest, AnUnfinishedFileIsRemoved) {
  {
    auto writer = RecordWriter::create(file_);
    ASSERT_TRUE(writer->append(bytesOf("hello")).ok());
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
  EXPECT_THAT(std::string(RecordWriter::create("/none/x").status().message()),
              HasSubstr("cannot write /none/x: No such file"));
}

TEST(ExampleTest, ReadsWhatProtobufWrites) {
  // {"a": int64 [1]}, packed, and {"a": int64 [1, 2], "f": float [1]} one by one.
  const std::string packedBytes =
      "\x0a\x0c\x0a\x0a\x0a\x01"s
      "a\x12\x05\x1a\x03\x0a\x01\x01"s;
  const auto packed = Example::parse(bytesOf(packedBytes));
  ASSERT_TRUE(packed.ok()) << packed.status();
  ASSERT_NE(packed->find("a"), nullptr);
  EXPECT_THAT(packed->find("a")->integers, ElementsAre(1));
  const std::string singleBytes =
      "\x0a\x1d\x0a\x0b\x0a\x01"s
      "a\x12\x06\x1a\x04\x08\x01\x08\x02"s
      "\x0a\x0e\x0a\x01"s
      "f\x12\x09\x12\x07\x0d\0\0\x80\x3f\x10\x07"s;
  const auto single = Example::parse(bytesOf(singleBytes));
  ASSERT_TRUE(single.ok()) << single.status();
  ASSERT_NE(single->find("a"), nullptr);
  ASSERT_NE(single->find("f"), nullptr);
  EXPECT_THAT(single->find("a")->integers, ElementsAre(1, 2));
  EXPECT_THAT(single->find("f")->floats, ElementsAre(1.0F));
}

TEST(ExampleTest, ReadsWhatItWrites) {
  const std::string bytes = exampleOf({{"image", {.bytes = {"abc", ""}}},
                                       {"number", {.integers = {-1, 1LL << 40}}},
                                       {"share", {.floats = {0.5F, -2}}},
                                       {"nothing", {}}});
  const auto example = Example::parse(bytesOf(bytes));
  ASSERT_TRUE(example.ok()) << example.status();
  EXPECT_THAT(example->find("image")->bytes, ElementsAre("abc", ""));
  EXPECT_EQ(example->text("image"), "abc");
  EXPECT_THAT(example->find("number")->integers, ElementsAre(-1, 1LL << 40));
  EXPECT_THAT(example->find("share")->floats, ElementsAre(0.5F, -2));
  EXPECT_THAT(example->find("nothing")->bytes, IsEmpty());
  EXPECT_EQ(example->find("none"), nullptr);
  EXPECT_EQ(example->text("number"), "");
  for (std::size_t size = 1; size < bytes.size(); ++size) {
    const auto part = Example::parse(bytesOf(bytes).first(size));
    ASSERT_FALSE(part.ok()) << size;
    EXPECT_THAT(std::string(part.status().message()), HasSubstr("is no tf.Example"));
  }
}

// A list of another kind ends the one before, as protobuf has it; lists without elements keep their
// kind.
TEST(ExampleTest, AFeatureHasOneKind) {
  const auto kindOf = [](const Feature& feature) {
    const std::string bytes = exampleOf({{"a", feature}});
    const auto example = Example::parse(bytesOf(bytes));
    EXPECT_TRUE(example.ok()) << example.status();
    return example->find("a")->kind();
  };
  for (const auto kind :
       {FeatureKind::kNone, FeatureKind::kBytes, FeatureKind::kFloats, FeatureKind::kIntegers}) {
    EXPECT_EQ(kindOf({.kindIfEmpty = kind}), kind);
  }
  EXPECT_EQ(kindOf({.integers = {1}, .kindIfEmpty = FeatureKind::kBytes}), FeatureKind::kIntegers);
  const std::string two =  // {"a": float [1] and then int64 [1]}
      "\x0a\x13\x0a\x11\x0a\x01"s
      "a\x12\x0c\x12\x05\x0d\0\0\x80\x3f\x1a\x03\x0a\x01\x01"s;
  const auto example = Example::parse(bytesOf(two));
  ASSERT_TRUE(example.ok()) << example.status();
  EXPECT_EQ(example->find("a")->kind(), FeatureKind::kIntegers);
  EXPECT_THAT(example->find("a")->floats, IsEmpty());
}

TEST(CocoTest, GivesImagesTheirCaptions) {
  const auto images = parseCoco(bytesOf(R"({"info": {}, "images": [
      {"id": 9, "file_name": "b.jpg", "height": 4}, {"id": 2, "file_name": "sub/a.jpg"},
      {"id": 3, "file_name": "c.png"}],
    "annotations": [{"image_id": 2, "id": 1, "caption": "One."},
      {"image_id": 9, "id": 2, "caption": "Two"}, {"image_id": 2, "id": 3, "caption": "Three"}]})"),
                                "coco.json");
  ASSERT_TRUE(images.ok()) << images.status();
  ASSERT_EQ(images->size(), 3);
  EXPECT_EQ((*images)[1].file, "sub/a.jpg");
  EXPECT_THAT((*images)[0].captions, ElementsAre("Two"));
  EXPECT_THAT((*images)[1].captions, ElementsAre("One.", "Three"));
  EXPECT_THAT((*images)[2].captions, IsEmpty());
}

TEST(CocoTest, SaysWhatIsWrong) {
  const auto errorOf = [](std::string_view text) {
    return test::errorOf(parseCoco(bytesOf(text), "coco.json"));
  };
  const std::string tail = R"(, "annotations": []})";
  EXPECT_EQ(errorOf(R"({"images": [)"), "coco.json: is no JSON from byte 13 on");
  EXPECT_EQ(errorOf(""), "coco.json: is no JSON from byte 1 on");
  EXPECT_EQ(errorOf("1e99999"), "coco.json: has a number that is too large");
  EXPECT_EQ(errorOf("[]"), "coco.json: has no list \"images\"");
  EXPECT_EQ(errorOf(R"({"images": 5})"), "coco.json: has no list \"images\"");
  EXPECT_EQ(errorOf(R"({"images": []})"), "coco.json: has no list \"annotations\"");
  EXPECT_THAT(errorOf(R"({"images": [{"id": 1}])" + tail), HasSubstr("image 0 has no"));
  EXPECT_THAT(errorOf(R"({"images": [{"id": "1", "file_name": "a"}])" + tail),
              HasSubstr("image 0 has no whole number \"id\""));
  for (const char* name : {"../a.jpg", "/etc/passwd", "a/../../b", "", "a\\u0000b"}) {
    EXPECT_THAT(
        errorOf(R"({"images": [{"id": 1, "file_name": ")" + std::string(name) + "\"}]" + tail),
        HasSubstr("does not name a file in the folder"))
        << name;
  }
  EXPECT_THAT(
      errorOf(R"({"images": [{"id": 1, "file_name": "a"}, {"id": 1, "file_name": "b"}])" + tail),
      HasSubstr("image 1 has the id 1 that another one has"));
  const std::string head = R"({"images": [{"id": 1, "file_name": "a"}], "annotations": [)";
  EXPECT_THAT(errorOf(head + R"({"image_id": 2, "caption": "x"}]})"),
              HasSubstr("annotation 0 is of image 2, which is not in the list"));
  EXPECT_THAT(errorOf(head + R"({"image_id": 1, "caption": 5}]})"),
              HasSubstr("annotation 0 has no"));
}

}  // namespace
}  // namespace colla::data
