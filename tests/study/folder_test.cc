#include "study/folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support/scratch.h"

namespace colla::study {
namespace {

using ::testing::HasSubstr;

TEST(FolderTest, RefusesWhatIsNotItsOwn) {
  const Scratch scratch;
  const Folder folder(scratch.path() + "/new/study");
  ASSERT_TRUE(folder.create().ok());
  ASSERT_TRUE(folder.save(Study()).ok());
  EXPECT_THAT(std::string(folder.create().message()), HasSubstr("holds another study"));
  std::ofstream(scratch.path() + "/file") << "text";
  EXPECT_THAT(std::string(Folder(scratch.path() + "/file").create().message()),
              HasSubstr("is a file"));
  EXPECT_THAT(std::string(Folder(scratch.path()).create().message()),
              HasSubstr("files that are not a study's"));
  EXPECT_THAT(std::string(Folder("/proc/study").create().message()), HasSubstr("cannot write"));
}

TEST(FolderTest, KeepsStudiesAndResults) {
  const Scratch scratch;
  const Folder folder(scratch.path() + "/study");
  EXPECT_THAT(std::string(folder.load().status().message()), HasSubstr("holds no study"));
  ASSERT_TRUE(folder.create().ok());
  Study study;
  study.options.program.words = {"mlp"};
  study.plan.variants = {{.id = "single-1", .label = "one worker"}};
  study.plan.runs = {{"single-1", 0, 1.5}};
  ASSERT_TRUE(folder.save(study).ok());
  const auto loaded = folder.load();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->plan.runs[0].seconds, 1.5);
  EXPECT_EQ(loaded->options.program.words[0], "mlp");

  EXPECT_FALSE(folder.result("single-1", 0));
  std::filesystem::create_directories(folder.runOf("single-1", 0) + "/training/checkpoints/step-1");
  std::ofstream(folder.runOf("single-1", 0) + "/training/log.txt") << "step\n";
  RunResult result;
  result.variant = "single-1";
  result.status = "done";
  result.uses = {{.seconds = 1, .role = "worker"}};
  ASSERT_TRUE(folder.saveResult(result).ok());
  EXPECT_EQ(folder.result("single-1", 0)->uses.size(), 1u);
  folder.removeCheckpoints("single-1", 0);
  EXPECT_FALSE(std::filesystem::exists(folder.runOf("single-1", 0) + "/training/checkpoints"));
  EXPECT_TRUE(std::filesystem::exists(folder.runOf("single-1", 0) + "/training/log.txt"));

  std::ofstream(folder.path() + "/study.json") << "{";
  EXPECT_THAT(std::string(folder.load().status().message()), HasSubstr("is broken"));
}

}  // namespace
}  // namespace colla::study
