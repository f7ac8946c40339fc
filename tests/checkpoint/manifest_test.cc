#include "checkpoint/manifest.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <span>

#include "base/crc32c.h"
#include "support/error_of.h"

namespace colla::checkpoint {
namespace {

using ::testing::HasSubstr;

Manifest example() {
  Manifest manifest;
  manifest.step = 200;
  manifest.epoch = 3;
  manifest.samples = 1234;
  manifest.seed = ~std::uint64_t{0};
  manifest.slices = 8;
  manifest.threads = 2;
  manifest.globalBatch = 512;
  manifest.shuffle = false;
  manifest.bfloat16 = true;
  manifest.model = "mlp";
  manifest.modelOptions = "hidden=100,100";
  manifest.optimizer = "adam lr=0.001";
  manifest.strategy = "allreduce";
  manifest.workers = 4;
  manifest.collaVersion = "0.1.0";
  manifest.torchVersion = "2.13.0";
  manifest.data = "mnist: 60000 samples";
  manifest.time = "2026-01-31T12:00:00Z";
  manifest.extra = {{"data", "mnist"}, {"note", "ü\n\""}};
  manifest.buffers = {"bn.running_mean"};
  manifest.files = {{"model.safetensors", 1ULL << 40, 0xdeadbeef}, {"optimizer.safetensors", 8, 1}};
  return manifest;
}

std::string reasonFor(const std::string& text) { return test::errorOf(parseManifest(text)); }

TEST(Manifest, SurvivesTheFile) {
  const Manifest manifest = example();
  const auto parsed = parseManifest(encodeManifest(manifest));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(encodeManifest(*parsed), encodeManifest(manifest));
  EXPECT_EQ(parsed->seed, manifest.seed);
  EXPECT_EQ(parsed->samples, 1234);
  EXPECT_FALSE(parsed->shuffle);
  EXPECT_TRUE(parsed->bfloat16);
  EXPECT_EQ(parsed->data, manifest.data);
  EXPECT_EQ(parsed->extra, manifest.extra);
  EXPECT_EQ(parsed->buffers, manifest.buffers);
  ASSERT_EQ(parsed->files.size(), 2U);
  EXPECT_EQ(parsed->files[0].crc, 0xdeadbeef);
  EXPECT_EQ(parsed->files[0].bytes, 1ULL << 40);
  EXPECT_TRUE(differences(*parsed, manifest).empty());
}

// Every field that a run is resumed by is covered by the checksum: any changed character is seen,
// unless it changes the layout alone.
TEST(Manifest, AnyDamageIsSeen) {
  const std::string text = encodeManifest(example());
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    const auto parsed = parseManifest(damaged);
    if (parsed.ok()) {
      EXPECT_EQ(encodeManifest(*parsed), text) << "byte " << i;
    }
  }
  for (std::size_t size = 0; size + 2 < text.size(); ++size) {
    EXPECT_FALSE(parseManifest(text.substr(0, size)).ok()) << size;
  }
}

TEST(Manifest, LayoutDoesNotMatter) {
  const auto value = nlohmann::json::parse(encodeManifest(example()));
  EXPECT_TRUE(parseManifest(value.dump()).ok());
}

TEST(Manifest, ThoseOfEarlierVersionsLackSome) {
  auto value = nlohmann::json::parse(encodeManifest(example()));
  for (const char* name : {"bfloat16", "data", "crc32c"}) value.erase(name);
  const std::string text = value.dump();
  value["crc32c"] = fmt::format("{:08x}", crc32c(std::as_bytes(std::span(text))));
  const auto parsed = parseManifest(value.dump());
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_FALSE(parsed->bfloat16);
  EXPECT_EQ(parsed->data, "");
}

TEST(Manifest, RefusesOthers) {
  EXPECT_THAT(reasonFor("{}"), HasSubstr("format"));
  EXPECT_THAT(reasonFor("[]"), HasSubstr("not the manifest"));
  EXPECT_THAT(reasonFor(std::string(100000, '[')), HasSubstr("not the manifest"));
  EXPECT_THAT(reasonFor(R"({"format": 2})"), HasSubstr("has format 2, but this Colla reads 1"));
  EXPECT_THAT(reasonFor(R"({"format": 1, "crc32c": "00000000"})"), HasSubstr("damaged"));
  EXPECT_THAT(reasonFor(R"({"format": 1e99})"), HasSubstr("format"));
}

TEST(Manifest, FilesStayInTheDirectory) {
  for (const char* name : {"../model.safetensors", "a/b", ".hidden", ""}) {
    Manifest manifest = example();
    manifest.files.push_back({name, 1, 1});
    EXPECT_THAT(reasonFor(encodeManifest(manifest)), HasSubstr("cannot be one of its files"))
        << name;
  }
}

TEST(Manifest, TextThatIsNotUtf8DoesNotLoseACheckpoint) {
  Manifest manifest = example();
  manifest.extra["bad"] = "\xff";
  EXPECT_EQ(reasonFor(encodeManifest(manifest)), "fine");
}

TEST(Manifest, DifferencesNameBothValuesAndWhatDecidesBitsFirst) {
  const Manifest a = example();
  Manifest b = a;
  b.strategy = "single";
  b.workers = 1;
  b.step = 1;
  EXPECT_TRUE(differences(a, b).empty());  // The promise: none of these changes a bit.
  b.seed = 1;
  b.slices = 2;
  b.threads = 1;
  b.globalBatch = 100;
  b.bfloat16 = false;
  const auto found = differences(a, b);
  ASSERT_EQ(found.size(), 5U);
  EXPECT_EQ(found[0].name, "seed");
  EXPECT_EQ(found[1].name, "slices");
  EXPECT_EQ(found[1].a, "8");
  EXPECT_EQ(found[1].b, "2");
  EXPECT_EQ(found[2].name, "threads");
  EXPECT_EQ(found[4].name, "bfloat16");
}

}  // namespace
}  // namespace colla::checkpoint
