#include "data/image/image_dataset.h"

#include <fmt/format.h>

#include <utility>

#include "colla/array_dataset.h"
#include "data/image/transform.h"
#include "data/indices.h"

namespace colla::data {
namespace {

class TransformedImages : public Dataset {
 public:
  TransformedImages(std::string title, Array images, Array labels, std::int64_t classes,
                    const ImageTransform& transform)
      : title_(std::move(title)),
        images_(std::move(images)),
        labels_(std::move(labels)),
        classes_(classes),
        transform_(transform) {}

  std::int64_t size() const override { return images_.rows(); }
  std::vector<Field> fields() const override {
    const auto [height, width] = transform_.output();
    return {{"image", DataType::kFloat32, {images_.shape()[1], height, width}},
            {"label", DataType::kInt64, {}}};
  }
  std::int64_t classes() const override { return classes_; }
  bool inMemory() const override { return transform_.output() == storedSize(); }
  std::vector<Array> held() const override { return {images_, labels_}; }
  Result<Batch> read(std::span<const std::int64_t> indices, Random& random) const override;
  std::string describe() const override {
    return fmt::format("{}: {}", title_, describeSamples(*this));
  }

 private:
  ImageSize storedSize() const { return {images_.shape()[2], images_.shape()[3]}; }

  std::string title_;
  Array images_;
  Array labels_;
  std::int64_t classes_;
  ImageTransform transform_;
  mutable ArrayPool pool_;
};

Result<Batch> TransformedImages::read(std::span<const std::int64_t> indices, Random& random) const {
  COLLA_TRY(checkIndices(title_, indices, size()));
  const auto [height, width] = transform_.output();
  const auto count = static_cast<std::int64_t>(indices.size());
  const std::int64_t channels = images_.shape()[1];
  COLLA_TRY_ASSIGN(Array images,
                   pool_.allocate(DataType::kFloat32, {count, channels, height, width}));
  COLLA_TRY_ASSIGN(Array labels, pool_.allocate(DataType::kInt64, {count}));
  ImageView view{nullptr, static_cast<int>(channels), storedSize()};
  ImageTransform::Scratch scratch;
  float* result = images.as<float>().data();
  for (std::int64_t i = 0; i < count; ++i) {
    view.planes = images_.as<std::uint8_t>().data() + indices[i] * view.bytes();
    transform_.apply(view, random, scratch, result);
    result += channels * height * width;
    labels.as<std::int64_t>()[i] = labels_.as<std::int64_t>()[indices[i]];
  }
  return Batch{std::move(images), std::move(labels)};
}

}  // namespace

Result<std::shared_ptr<const Dataset>> imageDataset(std::string title, Array images, Array labels,
                                                    std::int64_t classes, Part part,
                                                    const ReadOptions& options) {
  const ImageSize stored{images.shape()[2], images.shape()[3]};
  const ImageSize wanted = options.height > 0 ? ImageSize{options.height, options.width} : stored;
  const bool augment = options.augment && part == Part::kTrain;
  if (wanted == stored && !augment) {
    COLLA_TRY_ASSIGN(auto dataset,
                     ArrayDataset::create(std::move(title),
                                          {{"image", images, true}, {"label", labels}}, classes));
    return std::shared_ptr<const Dataset>(std::move(dataset));
  }
  return std::shared_ptr<const Dataset>(
      std::make_shared<TransformedImages>(std::move(title), std::move(images), std::move(labels),
                                          classes, ImageTransform(wanted, augment)));
}

}  // namespace colla::data
