// A directory of checkpoints: what is saved is found again, damage is named, nothing whole is lost.
#include "checkpoint/directory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>

#include "checkpoint/source.h"
#include "support/checkpoints.h"

namespace colla::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using DirectoryTest = CheckpointTest;

std::vector<std::int64_t> stepsIn(const Directory& directory) {
  const auto steps = directory.list();
  EXPECT_TRUE(steps.ok()) << steps.status();
  return steps.ok() ? *steps : std::vector<std::int64_t>{};
}

TEST_F(DirectoryTest, WhatIsSavedIsFoundAgain) {
  Directory directory(path("run/checkpoints"));
  const Example example(200);
  const auto saved = directory.save(example.manifest, example.contents());
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(saved->path, path("run/checkpoints/step-00000200"));
  EXPECT_THAT(namesIn(saved->path),
              ElementsAre("manifest.json", "model.safetensors", "optimizer.safetensors"));
  std::uint64_t bytes = 0;
  for (const auto& file : std::filesystem::directory_iterator(saved->path))
    bytes += file.file_size();
  EXPECT_EQ(saved->bytes, bytes);

  const auto loaded = Directory(path("run/checkpoints")).loadNewest();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->manifest().step, 200);
  EXPECT_EQ(loaded->manifest().slices, 4);
  EXPECT_FALSE(loaded->manifest().time.empty());
  EXPECT_FALSE(loaded->manifest().collaVersion.empty());
  ASSERT_EQ(loaded->model().size(), 4U);
  EXPECT_EQ(loaded->model()[3].name, "fc.weight");
  EXPECT_THAT(valuesOf<float>(loaded->model()[3]), ElementsAre(0.5F, 1, 2, 3, 4, 200));
  EXPECT_FALSE(loaded->isBuffer("fc.weight"));
  EXPECT_TRUE(loaded->isBuffer("bn.num_batches_tracked"));
  ASSERT_EQ(loaded->optimizer().size(), 2U);
  EXPECT_EQ(loaded->optimizer()[0].name, "fc.bias/exp_avg");
  EXPECT_TRUE(loaded->optimizer()[1].shape.empty());
}

TEST_F(DirectoryTest, ListsStepsInOrderAndNothingElse) {
  Directory directory(path("c"));
  EXPECT_THAT(stepsIn(directory), IsEmpty());
  EXPECT_EQ(directory.loadNewest().status().code(), StatusCode::kNotFound);
  for (const std::int64_t step : {1000000000, 0, 20, 3}) save(directory, step);
  std::filesystem::create_directory(path("c/step-7"));
  std::filesystem::create_directory(path("c/step-00000008x"));
  std::filesystem::create_directory(path("c/.step-00000009.elsewhere-1"));
  writeText(path("c/step-00000010"), "a file");
  EXPECT_THAT(stepsIn(directory), ElementsAre(0, 3, 20, 1000000000));
  EXPECT_THAT(std::string(directory.load(5).status().message()),
              HasSubstr("there is no step 5 in " + path("c") + ", only 0, 3, 20, 1000000000"));
}

TEST_F(DirectoryTest, PruneKeepsTheNewestOfThisRun) {
  Directory directory(path("c"));
  for (const std::int64_t step : {1, 2, 3, 4, 9}) save(directory, step);
  ASSERT_TRUE(directory.prune(2, 4).ok());
  EXPECT_THAT(stepsIn(directory), ElementsAre(3, 4, 9));  // 9 is of a run that this one is not.
  EXPECT_THAT(namesIn(path("c")),
              ElementsAre(".lock", "step-00000003", "step-00000004", "step-00000009"));
}

TEST_F(DirectoryTest, TheBestOneIsMarkedAndStays) {
  Directory directory(path("run/checkpoints"));
  for (const std::int64_t step : {1, 2, 3, 4}) save(directory, step);
  EXPECT_EQ(directory.best().status().code(), StatusCode::kNotFound);
  EXPECT_THAT(
      std::string(Source::open(path("run@best")).status().message()),
      HasSubstr("no checkpoint in " + path("run/checkpoints") + " is marked as the best one"));
  ASSERT_TRUE(directory.markBest(4).ok());
  ASSERT_TRUE(directory.markBest(2).ok());
  EXPECT_EQ(*directory.best(), 2);
  ASSERT_TRUE(directory.prune(1, 4).ok());
  EXPECT_THAT(stepsIn(directory), ElementsAre(2, 4));
  for (const char* name : {"run@best", "run/checkpoints@best", "run/checkpoints/best"}) {
    const auto source = Source::open(path(name));
    ASSERT_TRUE(source.ok()) << source.status();
    EXPECT_EQ(source->checkpoint()->manifest().step, 2) << name;
  }
  // A newer one takes its place, and counts as one of the newest.
  ASSERT_TRUE(directory.markBest(4).ok());
  ASSERT_TRUE(directory.prune(1, 4).ok());
  EXPECT_THAT(stepsIn(directory), ElementsAre(4));
  // Set aside it is the best of this run no more.
  ASSERT_TRUE(directory.setAside(1).ok());
  EXPECT_FALSE(directory.best().ok());
  ASSERT_TRUE(directory.markBest(std::nullopt).ok());
  EXPECT_THAT(namesIn(path("run/checkpoints")), ElementsAre(".lock", "set-aside-1"));
}

// What a run that goes on from an earlier step leaves behind can still be had, by its own name.
TEST_F(DirectoryTest, LaterStepsAreSetAside) {
  Directory directory(path("c"));
  for (const std::int64_t step : {1, 2, 3, 9}) save(directory, step);
  EXPECT_EQ(*directory.setAside(9), "");
  EXPECT_EQ(*directory.setAside(2), path("c/set-aside-1"));
  EXPECT_THAT(stepsIn(directory), ElementsAre(1, 2));
  EXPECT_EQ(*directory.newest(), 2);
  EXPECT_THAT(stepsIn(Directory(path("c/set-aside-1"))), ElementsAre(3, 9));
  EXPECT_TRUE(Source::open(path("c/set-aside-1")).ok());
  EXPECT_TRUE(Source::open(path("c/set-aside-1@3")).ok());
  EXPECT_EQ(*directory.setAside(2), "");

  // Again, with the same steps: those of before stay, whatever is kept of the others.
  save(directory, 3);
  ASSERT_TRUE(directory.prune(1, 3).ok());
  EXPECT_EQ(*directory.setAside(0), path("c/set-aside-2"));
  EXPECT_THAT(stepsIn(directory), IsEmpty());
  EXPECT_THAT(stepsIn(Directory(path("c/set-aside-1"))), ElementsAre(3, 9));
  EXPECT_THAT(stepsIn(Directory(path("c/set-aside-2"))), ElementsAre(3));
}

// Those who look at a run name another step of it; its folder of checkpoints they need not know.
TEST_F(DirectoryTest, OffersWhatTheReaderCanTake) {
  Directory directory(path("run/checkpoints"));
  for (const std::int64_t step : {1, 2}) save(directory, step);
  writeText(path("run/checkpoints/step-00000002/manifest.json"), "{}");
  EXPECT_THAT(std::string(directory.load(2).status().message()), HasSubstr("with --resume 1"));
  const Directory named(path("run/checkpoints"), Offer::kName);
  const std::string offer = "; step-00000001 is whole: take it as " + path("run@1");
  EXPECT_THAT(std::string(named.load(2).status().message()), HasSubstr(offer));
  EXPECT_THAT(std::string(named.manifest(2).status().message()), HasSubstr(offer));
  EXPECT_THAT(std::string(Source::open(path("run")).status().message()), HasSubstr(offer));
  EXPECT_TRUE(Source::open(path("run@1")).ok());
}

TEST_F(DirectoryTest, DamageIsNamedAndTheNewestWholeOneOffered) {
  Directory directory(path("c"));
  for (const std::int64_t step : {100, 150, 200, 250}) save(directory, step);
  const std::string newest = path("c/step-00000250");
  const std::string model = newest + "/model.safetensors";
  const std::string whole = readText(model);
  writeText(path("c/step-00000200/manifest.json"), "{}");

  const auto messageOf = [&directory] {
    return std::string(directory.loadNewest().status().message());
  };
  const std::string offer = "; step-00000150 is whole: resume from it with --resume 150";
  flipBit(model, whole.size() - 1);
  EXPECT_THAT(messageOf(),
              AllOf(HasSubstr(model + " is damaged: its CRC32C is"), HasSubstr(offer)));
  writeText(model, whole.substr(0, 100));
  EXPECT_THAT(messageOf(),
              AllOf(HasSubstr(model + " is damaged: it has 100 bytes"), HasSubstr(offer)));
  std::filesystem::remove(model);
  EXPECT_THAT(messageOf(), AllOf(HasSubstr("cannot open " + model), HasSubstr(offer)));
  writeText(model, whole);
  EXPECT_TRUE(directory.loadNewest().ok());

  const std::string manifest = readText(newest + "/manifest.json");
  std::filesystem::remove(newest + "/manifest.json");
  EXPECT_THAT(messageOf(),
              AllOf(HasSubstr("cannot open " + newest + "/manifest.json"), HasSubstr(offer)));
  writeText(newest + "/manifest.json", "not ours");
  EXPECT_THAT(messageOf(),
              AllOf(HasSubstr(newest + "/manifest.json: is not the manifest"), HasSubstr(offer)));
  std::filesystem::remove_all(newest);
  std::filesystem::copy(path("c/step-00000150"), newest);
  EXPECT_THAT(messageOf(), AllOf(HasSubstr("is a checkpoint of step 150: somebody renamed it"),
                                 HasSubstr(offer)));
  EXPECT_TRUE(directory.load(150).ok());
}

TEST_F(DirectoryTest, ManifestAloneDoesNotLookAtTensors) {
  Directory directory(path("c"));
  EXPECT_EQ(directory.newest().status().code(), StatusCode::kNotFound);
  EXPECT_EQ(directory.manifest(1).status().code(), StatusCode::kNotFound);
  for (const std::int64_t step : {100, 200}) save(directory, step);
  EXPECT_EQ(*directory.newest(), 200);
  flipBit(path("c/step-00000200/model.safetensors"), 100);
  ASSERT_FALSE(directory.load(200).ok());
  const auto manifest = directory.manifest(200);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->step, 200);
  EXPECT_EQ(manifest->model, "mlp");

  EXPECT_THAT(std::string(directory.manifest(150).status().message()),
              HasSubstr("there is no step 150"));
  // Its own checksum is looked at.
  const std::string file = path("c/step-00000200/manifest.json");
  const std::string text = readText(file);
  std::string other = text;
  const std::size_t at = other.find("mlp");
  ASSERT_NE(at, std::string::npos);
  other[at] = 'n';
  writeText(file, other);
  EXPECT_THAT(std::string(directory.manifest(200).status().message()),
              AllOf(HasSubstr(file), HasSubstr("step-00000100 is whole")));
  writeText(file, text);
  std::filesystem::remove_all(path("c/step-00000100"));
  std::filesystem::copy(path("c/step-00000200"), path("c/step-00000100"));
  EXPECT_THAT(std::string(directory.manifest(100).status().message()),
              HasSubstr("is a checkpoint of step 200: somebody renamed it"));
}

TEST_F(DirectoryTest, SaysWhenNothingIsWhole) {
  Directory directory(path("c"));
  save(directory, 1);
  flipBit(path("c/step-00000001/optimizer.safetensors"), 100);
  EXPECT_THAT(std::string(directory.loadNewest().status().message()),
              HasSubstr("there is no whole checkpoint before it"));
}

TEST_F(DirectoryTest, SavingAStepAgainReplacesIt) {
  Directory directory(path("c"));
  save(directory, 5);
  const Example again(5, 42);
  ASSERT_TRUE(directory.save(again.manifest, again.contents()).ok());
  const auto loaded = directory.load(5);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(valuesOf<float>(loaded->model()[3])[0], 42);
  EXPECT_THAT(namesIn(path("c")), ElementsAre(".lock", "step-00000005"));
}

// What a process that died between the two renames leaves: the old one, under its other name.
TEST_F(DirectoryTest, AnInterruptedReplacementGivesTheOldOneBack) {
  {
    Directory directory(path("c"));
    save(directory, 5);
  }
  std::filesystem::rename(path("c/step-00000005"), path("c/.step-00000005.replaced"));
  const Directory reader(path("c"));
  EXPECT_THAT(stepsIn(reader), ElementsAre(5));
  EXPECT_TRUE(reader.load(5).ok()) << reader.load(5).status();
  Directory writer(path("c"));
  save(writer, 6);
  EXPECT_THAT(namesIn(path("c")), ElementsAre(".lock", "step-00000005", "step-00000006"));
}

TEST_F(DirectoryTest, LeftOversGoWithTheNextSave) {
  std::filesystem::create_directories(path("c/.step-00000005.elsewhere-77"));
  writeText(path("c/.step-00000005.elsewhere-77/model.safetensors"), "half");
  writeText(path("c/mine.txt"), "a user's own");
  Directory directory(path("c"));
  EXPECT_THAT(stepsIn(directory), IsEmpty());
  save(directory, 6);
  EXPECT_THAT(namesIn(path("c")), ElementsAre(".lock", "mine.txt", "step-00000006"));
}

TEST_F(DirectoryTest, ASecondWriterIsRefusedAndTouchesNothing) {
  Directory first(path("c"));
  save(first, 1);
  std::filesystem::create_directories(path("c/.step-00000002.here-1"));  // At work on it.
  Directory second(path("c"));
  const Example example(3);
  const auto refused = second.save(example.manifest, example.contents());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kRefused);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("in use by another run (process " + std::to_string(getpid())));
  EXPECT_THAT(namesIn(path("c")), ElementsAre(".lock", ".step-00000002.here-1", "step-00000001"));
  EXPECT_TRUE(second.loadNewest().ok());  // Reading is free.
}

TEST_F(DirectoryTest, WhatWasLoadedOutlivesItsFiles) {
  Directory directory(path("c"));
  save(directory, 1);
  save(directory, 2);
  const auto loaded = directory.load(1);
  ASSERT_TRUE(loaded.ok());
  ASSERT_TRUE(directory.prune(1, 2).ok());
  EXPECT_EQ(valuesOf<float>(loaded->model()[2])[0], 1);
}

TEST_F(DirectoryTest, ErrorsNameThePath) {
  writeText(path("file"), "");
  Directory directory(path("file/c"));
  const Example example(1);
  EXPECT_THAT(std::string(directory.save(example.manifest, example.contents()).status().message()),
              HasSubstr(path("file/c")));
  Manifest negative;
  negative.step = -1;
  EXPECT_EQ(Directory(path("c")).save(negative, {}).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(DirectoryTest, TensorsThatCannotBeSavedLeaveNothing) {
  Directory directory(path("c"));
  save(directory, 1);
  Example example(2);
  example.buffers.add<float>("fc.weight", {1}, {1});  // A parameter has that name.
  const auto saved = directory.save(example.manifest, example.contents());
  ASSERT_FALSE(saved.ok());
  EXPECT_THAT(std::string(saved.status().message()), HasSubstr("\"fc.weight\" occurs twice"));
  EXPECT_THAT(namesIn(path("c")), ElementsAre(".lock", "step-00000001"));
}

// A real file system of one megabyte, in a mount namespace of our own.
TEST_F(DirectoryTest, AFullDiskIsAClearErrorAndLosesNothing) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can mount a small file system";
  std::filesystem::create_directory(path("disk"));
  if (unshare(CLONE_NEWNS) != 0 ||
      mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("tmpfs", path("disk").c_str(), "tmpfs", 0, "size=1m") != 0) {
    GTEST_SKIP() << "cannot mount here: " << std::strerror(errno);
  }
  {
    Directory directory(path("disk/c"));
    save(directory, 1);
    // Full while the parameters are written, then while the optimizer's state is.
    for (const bool large : {true, false}) {
      Example example(2);
      Tensors& tensors = large ? example.parameters : example.optimizer;
      tensors.add<float>("big", {1 << 18}, std::vector<float>(1 << 18));
      const auto saved = directory.save(example.manifest, example.contents());
      ASSERT_FALSE(saved.ok());
      EXPECT_EQ(saved.status().code(), StatusCode::kIo);
      EXPECT_THAT(std::string(saved.status().message()),
                  AllOf(HasSubstr("step 2 was not saved"), HasSubstr(path("disk/c")),
                        HasSubstr(large ? "/model.safetensors: No space left"
                                        : "/optimizer.safetensors: No space left"),
                        HasSubstr("free some space"),
                        HasSubstr("; step-00000001 is whole: resume from it with --resume 1")));
      EXPECT_THAT(namesIn(path("disk/c")), ElementsAre(".lock", "step-00000001"));
    }
    EXPECT_TRUE(directory.loadNewest().ok());
    // Replacing on a full disk keeps the old one.
    Example again(1, 42);
    again.parameters.add<float>("big", {1 << 18}, std::vector<float>(1 << 18));
    EXPECT_FALSE(directory.save(again.manifest, again.contents()).ok());
    const auto loaded = directory.load(1);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ(valuesOf<float>(loaded->model()[3])[0], 0.5F);
    // And there is room again as soon as there is.
    save(directory, 2);
  }
  EXPECT_EQ(umount(path("disk").c_str()), 0);
}

}  // namespace
}  // namespace colla::checkpoint
