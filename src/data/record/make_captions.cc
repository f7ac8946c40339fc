#include "data/record/make_captions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "data/file.h"
#include "data/image/decode.h"
#include "data/record/captions.h"
#include "data/record/coco.h"
#include "data/record/example.h"
#include "data/record/record_file.h"
#include "data/text/tokens.h"
#include "data/text/vocabulary.h"

namespace colla::data {
namespace {

// "a man , riding": words in small letters with spaces between them.
std::string normalise(std::string caption) {
  std::ranges::transform(caption, caption.begin(), [](char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  });
  std::string words;
  forEachWord(caption, [&words](std::string_view word) {
    if (!words.empty()) words += ' ';
    words += word;
  });
  return words;
}

// Images with a caption that has words; how many have none.
std::int64_t dropSilent(std::vector<AnnotatedImage>& images) {
  for (AnnotatedImage& image : images) {
    for (std::string& caption : image.captions) caption = normalise(std::move(caption));
    std::erase(image.captions, "");
  }
  return static_cast<std::int64_t>(
      std::erase_if(images, [](const AnnotatedImage& image) { return image.captions.empty(); }));
}

// Of every 1 / share images the last.
Part partOf(std::size_t index, double share) {
  const auto before = static_cast<double>(index);
  return std::floor((before + 1) * share) > std::floor(before * share) ? Part::kTest : Part::kTrain;
}

Status prepare(const std::filesystem::path& out) {
  std::error_code error;
  std::filesystem::create_directories(out, error);
  if (error) {
    return {StatusCode::kIo,
            fmt::format("cannot make the folder {}: {}", out.string(), error.message())};
  }
  for (const Part part : {Part::kTrain, Part::kTest}) {
    const auto file = out / captionsFile(part);
    if (std::filesystem::exists(file, error)) {
      return {StatusCode::kRefused,
              fmt::format("{} is there already; remove it, or name another folder", file.string())};
    }
  }
  return {};
}

Result<std::vector<std::string>> findWords(const CaptionsPlan& plan,
                                           const std::vector<AnnotatedImage>& images) {
  if (!plan.vocabulary.empty()) {
    COLLA_TRY_ASSIGN(const Vocabulary vocabulary, Vocabulary::load(plan.vocabulary));
    std::vector<std::string> words;
    for (std::int32_t i = 0; i < vocabulary.size(); ++i) words.push_back(vocabulary.word(i));
    return words;
  }
  WordCounter counter;
  for (std::size_t i = 0; i < images.size(); ++i) {
    if (partOf(i, plan.testShare) == Part::kTest) continue;
    for (const std::string& caption : images[i].captions) {
      forEachWord(caption, [&counter](std::string_view word) { counter.add(word); });
    }
  }
  return counter.vocabulary({.words = plan.words, .minCount = plan.minCount});
}

Status append(const std::filesystem::path& file, const AnnotatedImage& image,
              RecordWriter& writer) {
  COLLA_TRY_ASSIGN(const auto bytes, readFile(file.string()));
  if (const auto decoded = decodeImage(bytes, file.string()); !decoded.ok()) {
    return decoded.status();
  }
  Feature captions;
  captions.bytes.assign(image.captions.begin(), image.captions.end());
  const std::string example = exampleOf({
      {std::string(kImageFeature),
       {.bytes = {{reinterpret_cast<const char*>(bytes.data()), bytes.size()}}}},
      {std::string(kNameFeature), {.bytes = {image.file}}},
      {std::string(kCaptionsFeature), std::move(captions)},
  });
  return writer.append(std::as_bytes(std::span(example)));
}

}  // namespace

Result<CaptionsMade> makeCaptions(
    const CaptionsPlan& plan,
    const std::function<void(std::int64_t done, std::int64_t all)>& progress) {
  if (!(plan.testShare >= 0 && plan.testShare < 1)) {
    return {StatusCode::kInvalidArgument,
            fmt::format("the share of the test part is from 0 to below 1, not {}", plan.testShare)};
  }
  const std::filesystem::path out(plan.out);
  std::vector<AnnotatedImage> images;
  {
    COLLA_TRY_ASSIGN(const auto bytes, readFile(plan.annotations));
    COLLA_TRY_ASSIGN(images, parseCoco(bytes, plan.annotations));
  }
  CaptionsMade made;
  made.skipped = dropSilent(images);
  if (images.empty()) {
    return {StatusCode::kIo, fmt::format("{}: no image has a caption", plan.annotations)};
  }
  COLLA_TRY_ASSIGN(const auto words, findWords(plan, images));
  made.words = static_cast<std::int64_t>(words.size());
  COLLA_TRY(prepare(out));
  COLLA_TRY_ASSIGN(RecordWriter train,
                   RecordWriter::create((out / captionsFile(Part::kTrain)).string()));
  COLLA_TRY_ASSIGN(RecordWriter test,
                   RecordWriter::create((out / captionsFile(Part::kTest)).string()));
  for (std::size_t i = 0; i < images.size(); ++i) {
    const bool forTest = partOf(i, plan.testShare) == Part::kTest;
    COLLA_TRY(append(std::filesystem::path(plan.images) / images[i].file, images[i],
                     forTest ? test : train));
    ++(forTest ? made.test : made.train);
    made.captions += static_cast<std::int64_t>(images[i].captions.size());
    if (progress)
      progress(static_cast<std::int64_t>(i) + 1, static_cast<std::int64_t>(images.size()));
  }
  COLLA_TRY(writeVocabulary(words, (out / kVocabularyFile).string()));
  if (made.test > 0) COLLA_TRY(test.close());
  COLLA_TRY(train.close());
  return made;
}

}  // namespace colla::data
