#include "data/text/text_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "data/array_of.h"
#include "data/indices.h"

namespace colla::data {
namespace {

class TextDataset : public Dataset {
 public:
  // `text` is int32.
  TextDataset(std::string title, Array text, std::int64_t vocabulary, std::int64_t length)
      : title_(std::move(title)),
        text_(std::move(text)),
        vocabulary_(vocabulary),
        length_(length) {}

  std::int64_t size() const override { return (text_.count() - 1) / length_; }
  std::vector<Field> fields() const override {
    return {{"words", DataType::kInt64, {length_}}, {"next", DataType::kInt64, {length_}}};
  }
  std::int64_t classes() const override { return vocabulary_; }
  std::int64_t symbols() const override { return vocabulary_; }
  bool inMemory() const override { return true; }
  std::vector<Array> held() const override { return {text_}; }
  Result<Batch> read(std::span<const std::int64_t> indices, Random& random) const override;
  std::string describe() const override {
    return fmt::format("{}: {}", title_, describeSamples(*this));
  }

 private:
  std::string title_;
  Array text_;
  std::int64_t vocabulary_;
  std::int64_t length_;
  mutable ArrayPool pool_;
};

Result<Batch> TextDataset::read(std::span<const std::int64_t> indices, Random& /*random*/) const {
  COLLA_TRY(checkIndices(title_, indices, size()));
  const auto count = static_cast<std::int64_t>(indices.size());
  COLLA_TRY_ASSIGN(Array words, pool_.allocate(DataType::kInt64, {count, length_}));
  COLLA_TRY_ASSIGN(Array next, pool_.allocate(DataType::kInt64, {count, length_}));
  for (std::int64_t i = 0; i < count; ++i) {
    const auto begin = text_.as<std::int32_t>().begin() + indices[i] * length_;
    std::copy_n(begin, length_, words.as<std::int64_t>().begin() + i * length_);
    std::copy_n(begin + 1, length_, next.as<std::int64_t>().begin() + i * length_);
  }
  return Batch{std::move(words), std::move(next)};
}

}  // namespace

Result<std::shared_ptr<const Dataset>> textDataset(std::string title,
                                                   std::vector<std::int32_t> text,
                                                   std::int64_t vocabulary, std::int64_t length) {
  if (length == 0) length = kDefaultTextLength;
  if (static_cast<std::int64_t>(text.size()) <= length) {
    return {StatusCode::kInvalidArgument,
            fmt::format("{}: {} words are too few; one sample takes {} and the word after them",
                        title, text.size(), length)};
  }
  COLLA_TRY_ASSIGN(Array words, arrayOf(text));
  return std::make_shared<TextDataset>(std::move(title), std::move(words), vocabulary, length);
}

}  // namespace colla::data
