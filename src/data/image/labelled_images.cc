#include "data/image/labelled_images.h"

#include <fmt/format.h>

#include <utility>

#include "data/image/transform.h"
#include "data/indices.h"

namespace colla::data {
namespace {

class LabelledImages : public Dataset {
 public:
  LabelledImages(std::string title, std::shared_ptr<const ImageSource> source,
                 const ImageTransform& transform)
      : title_(std::move(title)), source_(std::move(source)), transform_(transform) {}

  std::int64_t size() const override { return source_->size(); }
  std::vector<Field> fields() const override {
    const auto [height, width] = transform_.output();
    return {{"image", DataType::kFloat32, {kColourChannels, height, width}},
            {"label", DataType::kInt64, {}}};
  }
  std::int64_t classes() const override { return source_->classes(); }
  Result<Batch> read(std::span<const std::int64_t> indices, Random& random) const override;
  std::string describe() const override {
    return fmt::format("{}: {}", title_, describeSamples(*this));
  }

 private:
  std::string title_;
  std::shared_ptr<const ImageSource> source_;
  ImageTransform transform_;
  mutable ArrayPool pool_;
};

Result<Batch> LabelledImages::read(std::span<const std::int64_t> indices, Random& random) const {
  COLLA_TRY(checkIndices(title_, indices, size()));
  const auto [height, width] = transform_.output();
  const auto count = static_cast<std::int64_t>(indices.size());
  COLLA_TRY_ASSIGN(Array images,
                   pool_.allocate(DataType::kFloat32, {count, kColourChannels, height, width}));
  COLLA_TRY_ASSIGN(Array labels, pool_.allocate(DataType::kInt64, {count}));
  ImageTransform::Scratch scratch;
  float* result = images.as<float>().data();
  for (std::int64_t i = 0; i < count; ++i) {
    COLLA_TRY_ASSIGN(const LabelledImage sample, source_->read(indices[i]));
    transform_.apply(sample.image.view(), random, scratch, result);
    result += kColourChannels * height * width;
    labels.as<std::int64_t>()[i] = sample.label;
  }
  return Batch{std::move(images), std::move(labels)};
}

}  // namespace

Result<std::shared_ptr<const Dataset>> labelledImages(std::string title,
                                                      std::shared_ptr<const ImageSource> source,
                                                      Part part, const ReadOptions& options) {
  COLLA_TRY_ASSIGN(const LabelledImage first, source->read(0));
  const ImageSize size =
      options.height > 0 ? ImageSize{options.height, options.width} : first.image.size;
  const ImageTransform transform(size, options.augment && part == Part::kTrain);
  return std::shared_ptr<const Dataset>(
      std::make_shared<LabelledImages>(std::move(title), std::move(source), transform));
}

}  // namespace colla::data
