#include "data/record/captions.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "data/image/decode.h"
#include "data/record/example.h"
#include "data/record/record_file.h"
#include "data/text/caption_dataset.h"
#include "data/text/tokens.h"
#include "data/text/vocabulary.h"

namespace colla::data {
namespace {

class RecordCaptions : public CaptionSource {
 public:
  RecordCaptions(RecordFile file, Vocabulary vocabulary)
      : file_(std::move(file)), vocabulary_(std::move(vocabulary)) {}

  std::int64_t size() const override { return file_.size(); }
  std::vector<std::string> words() const override { return vocabulary_.words(); }
  bool inMemory() const override { return false; }
  Result<CaptionedImage> read(std::int64_t index) const override;

 private:
  RecordFile file_;
  Vocabulary vocabulary_;
};

Result<CaptionedImage> RecordCaptions::read(std::int64_t index) const {
  COLLA_TRY_ASSIGN(const auto record, file_.read(index));
  const auto example = Example::parse(record);
  if (!example.ok()) return file_.wrong(index, example.status().message());
  CaptionedImage result;
  auto image = decodeImage(std::as_bytes(std::span(example->text(kImageFeature))), kImageFeature);
  if (!image.ok()) return file_.wrong(index, image.status().message());
  result.image = *std::move(image);
  if (const Feature* const captions = example->find(kCaptionsFeature)) {
    for (const std::string_view text : captions->bytes) {
      Caption& caption = result.captions.emplace_back();
      forEachWord(text,
                  [&](std::string_view word) { caption.push_back(vocabulary_.number(word)); });
    }
  }
  if (result.captions.empty()) {
    return file_.wrong(index, fmt::format("has no {}", kCaptionsFeature));
  }
  return result;
}

}  // namespace

std::string captionsFile(Part part) { return std::string(toString(part)) + ".tfrecord"; }

bool looksLikeCaptions(const std::string& folder) {
  const std::filesystem::path path(folder);
  std::error_code ignored;
  return std::filesystem::exists(path / captionsFile(Part::kTrain), ignored) ||
         std::filesystem::exists(path / captionsFile(Part::kTest), ignored);
}

Result<std::shared_ptr<const Dataset>> openCaptions(const std::string& folder, Part part,
                                                    const ReadOptions& options) {
  const std::filesystem::path path(folder);
  COLLA_TRY_ASSIGN(RecordFile file, RecordFile::open((path / captionsFile(part)).string()));
  auto vocabulary = Vocabulary::load(options.vocabulary.empty() ? (path / kVocabularyFile).string()
                                                                : options.vocabulary);
  if (!vocabulary.ok()) {
    // Not kNotFound: that would be taken for a missing part.
    return {StatusCode::kInvalidArgument, fmt::format("{} has no vocabulary to go by: {}", folder,
                                                      vocabulary.status().message())};
  }
  auto source = std::make_shared<RecordCaptions>(std::move(file), *std::move(vocabulary));
  // Also shows early whether they can be read at all.
  COLLA_TRY_ASSIGN(const CaptionedImage first, source->read(0));
  return captionDataset(fmt::format("{} part of {}", toString(part), folder), std::move(source),
                        first.image.size, part, options);
}

}  // namespace colla::data
