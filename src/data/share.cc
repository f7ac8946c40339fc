#include "data/share.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "base/invalid.h"
#include "data/indices.h"

namespace colla::data {
namespace {

class SampleShare : public Dataset {
 public:
  SampleShare(std::shared_ptr<const Dataset> whole, int percent)
      : whole_(std::move(whole)),
        size_(std::max<std::int64_t>(1, whole_->size() * percent / 100)),
        title_(fmt::format("{} % of {}", percent, whole_->describe())) {}

  std::int64_t size() const override { return size_; }
  std::vector<Field> fields() const override { return whole_->fields(); }
  std::int64_t classes() const override { return whole_->classes(); }
  std::vector<std::string> words() const override { return whole_->words(); }
  std::int64_t symbols() const override { return whole_->symbols(); }
  bool inMemory() const override { return whole_->inMemory(); }
  std::vector<Array> held() const override { return whole_->held(); }

  Result<Batch> read(std::span<const std::int64_t> indices, Random& random) const override {
    COLLA_TRY(checkIndices(title_, indices, size_));
    std::vector<std::int64_t> chosen;
    chosen.reserve(indices.size());
    // Evenly spread, because many sets are sorted by class.
    for (const std::int64_t index : indices) chosen.push_back(index * whole_->size() / size_);
    return whole_->read(chosen, random);
  }

  std::string describe() const override {
    return fmt::format("{}: {}", title_, describeSamples(*this));
  }

 private:
  const std::shared_ptr<const Dataset> whole_;
  const std::int64_t size_;
  const std::string title_;
};

}  // namespace

DatasetResult openShare(std::string_view argument, Part part, const ReadOptions& options) {
  const auto end = argument.find("%:");
  int percent = 0;
  if (end != std::string_view::npos) {
    const auto [last, error] = std::from_chars(argument.data(), argument.data() + end, percent);
    if (error != std::errc() || last != argument.data() + end) percent = 0;
  }
  if (percent < 1 || percent > 100) {
    return invalid(
        "\"share:{}\" is not a share of a data set: write it as share:10%:NAME, with a "
        "whole percentage from 1 to 100",
        argument);
  }
  COLLA_TRY_ASSIGN(auto whole, openDataset(argument.substr(end + 2), part, options));
  if (part == Part::kTest || whole->size() == 0) return whole;
  return std::shared_ptr<const Dataset>(std::make_shared<SampleShare>(std::move(whole), percent));
}

}  // namespace colla::data
