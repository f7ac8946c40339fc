#include "train/shared_views.h"

#include <algorithm>

#include "base/bytes.h"
#include "colla/collectives.h"
#include "colla/error.h"

namespace colla::train {
namespace {

// Rank 0 runs the same program, but a length is not used before it is known to fit.
void checkFits(bool fits) {
  if (!fits) throwIfError({StatusCode::kInternal, "rank 0's list of tensors is damaged", 0});
}

}  // namespace

SharedViews::SharedViews(Group& group, std::vector<checkpoint::TensorView> mine) {
  std::ranges::sort(mine, {}, &checkpoint::TensorView::name);
  ByteWriter writer;
  std::size_t bytes = 0;
  writer.number(static_cast<std::uint32_t>(mine.size()));
  for (const auto& view : mine) {
    writer.text(view.name);
    writer.number(view.type);
    writer.number(static_cast<std::uint32_t>(view.shape.size()));
    for (const std::int64_t length : view.shape) writer.number(length);
    writer.number(static_cast<std::uint64_t>(view.bytes.size()));
    bytes += view.bytes.size();
  }
  std::vector<std::byte> header = writer.take();
  std::vector<std::int64_t> sizes = {static_cast<std::int64_t>(header.size()),
                                     static_cast<std::int64_t>(bytes)};
  throwIfError(broadcast(group, sizes, 0));
  checkFits(sizes[0] >= 0 && sizes[1] >= 0);
  header.resize(static_cast<std::size_t>(sizes[0]));
  memory_.reserve(static_cast<std::size_t>(sizes[1]));
  for (const auto& view : mine) {
    memory_.insert(memory_.end(), view.bytes.begin(), view.bytes.end());
  }
  memory_.resize(static_cast<std::size_t>(sizes[1]));
  throwIfError(broadcast(group, Buffer(header.data(), header.size(), DataType::kUInt8), 0));
  throwIfError(broadcast(group, Buffer(memory_.data(), memory_.size(), DataType::kUInt8), 0));

  ByteReader reader(header);
  std::size_t offset = 0;
  for (auto left = reader.number<std::uint32_t>(); left > 0; --left) {
    checkpoint::TensorView& view = views_.emplace_back();
    view.name = reader.text();
    view.type = reader.number<DataType>();
    const auto dimensions = reader.number<std::uint32_t>();
    checkFits(reader.ok() && static_cast<int>(view.type) < kDataTypes &&
              dimensions <= reader.remaining() / sizeof(std::int64_t));
    view.shape.resize(dimensions);
    for (std::int64_t& length : view.shape) length = reader.number<std::int64_t>();
    const auto length = reader.number<std::uint64_t>();
    checkFits(reader.ok() && length <= memory_.size() - offset);
    view.bytes = std::span(memory_).subspan(offset, length);
    offset += length;
  }
  checkFits(reader.done());
}

}  // namespace colla::train
