#include "data/text/caption_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "data/indices.h"
#include "data/text/words.h"

namespace colla::data {
namespace {

class CaptionDataset : public Dataset {
 public:
  CaptionDataset(std::string title, std::shared_ptr<const CaptionSource> source,
                 const ImageTransform& transform, Part part, std::int64_t maxLength)
      : title_(std::move(title)),
        source_(std::move(source)),
        words_(source_->words()),
        transform_(transform),
        part_(part),
        maxLength_(maxLength) {}

  std::int64_t size() const override { return source_->size(); }
  std::vector<Field> fields() const override {
    const auto [height, width] = transform_.output();
    return {{"image", DataType::kFloat32, {kColourChannels, height, width}},
            {"caption", DataType::kInt64, {-1}},
            {"length", DataType::kInt64, {}}};
  }
  std::int64_t classes() const override { return static_cast<std::int64_t>(words_.size()); }
  std::vector<std::string> words() const override { return words_; }
  bool inMemory() const override { return source_->inMemory(); }
  Result<Batch> read(std::span<const std::int64_t> indices, Random& random) const override;
  std::string describe() const override {
    return fmt::format("{}: {}", title_, describeSamples(*this));
  }

 private:
  // With <s> and </s>, cut to what is asked for.
  Caption framed(const std::vector<Caption>& captions, Random& random) const {
    const std::size_t chosen = part_ == Part::kTrain ? random.below(captions.size()) : 0;
    const Caption& words = captions[chosen];
    const std::size_t most = maxLength_ > 0 ? maxLength_ - 2 : words.size();
    Caption caption{kSentenceBegin};
    caption.insert(caption.end(), words.begin(),
                   words.begin() + static_cast<std::ptrdiff_t>(std::min(words.size(), most)));
    caption.push_back(kSentenceEnd);
    return caption;
  }
  Result<Array> pad(const std::vector<Caption>& captions) const;

  std::string title_;
  std::shared_ptr<const CaptionSource> source_;
  std::vector<std::string> words_;
  ImageTransform transform_;
  Part part_;
  std::int64_t maxLength_;
  mutable ArrayPool pool_;
};

Result<Batch> CaptionDataset::read(std::span<const std::int64_t> indices, Random& random) const {
  COLLA_TRY(checkIndices(title_, indices, size()));
  const auto [height, width] = transform_.output();
  const auto count = static_cast<std::int64_t>(indices.size());
  COLLA_TRY_ASSIGN(Array images,
                   pool_.allocate(DataType::kFloat32, {count, kColourChannels, height, width}));
  COLLA_TRY_ASSIGN(Array lengths, pool_.allocate(DataType::kInt64, {count}));
  std::vector<Caption> captions;
  ImageTransform::Scratch scratch;
  float* result = images.as<float>().data();
  for (std::int64_t i = 0; i < count; ++i) {
    COLLA_TRY_ASSIGN(const CaptionedImage sample, source_->read(indices[i]));
    transform_.apply(sample.image.view(), random, scratch, result);
    result += kColourChannels * height * width;
    captions.push_back(framed(sample.captions, random));
    lengths.as<std::int64_t>()[i] = static_cast<std::int64_t>(captions.back().size());
  }
  COLLA_TRY_ASSIGN(Array padded, pad(captions));
  return Batch{std::move(images), std::move(padded), std::move(lengths)};
}

Result<Array> CaptionDataset::pad(const std::vector<Caption>& captions) const {
  std::size_t longest = 0;
  for (const Caption& caption : captions) longest = std::max(longest, caption.size());
  COLLA_TRY_ASSIGN(Array padded,
                   pool_.allocate(DataType::kInt64, {static_cast<std::int64_t>(captions.size()),
                                                     static_cast<std::int64_t>(longest)}));
  auto row = padded.as<std::int64_t>();
  for (const Caption& caption : captions) {
    std::ranges::copy(caption, row.begin());
    std::ranges::fill(row.subspan(caption.size(), longest - caption.size()), kPad);
    row = row.subspan(longest);
  }
  return padded;
}

}  // namespace

Result<std::shared_ptr<const Dataset>> captionDataset(std::string title,
                                                      std::shared_ptr<const CaptionSource> source,
                                                      ImageSize defaultSize, Part part,
                                                      const ReadOptions& options) {
  constexpr std::int64_t kShortest = 3;
  if (options.length > 0 && options.length < kShortest) {
    return {StatusCode::kInvalidArgument,
            fmt::format("{}: captions of length {} have no room for <s>, a word and </s>", title,
                        options.length)};
  }
  const ImageSize size =
      options.height > 0 ? ImageSize{options.height, options.width} : defaultSize;
  const ImageTransform transform(size, options.augment && part == Part::kTrain);
  return std::shared_ptr<const Dataset>(std::make_shared<CaptionDataset>(
      std::move(title), std::move(source), transform, part, options.length));
}

}  // namespace colla::data
