#include "train/state.h"

#include "base/bytes.h"
#include "base/check.h"
#include "checkpoint/restore.h"
#include "colla/error.h"
#include "train/tensors.h"

namespace colla::train {
namespace {

void appendViews(std::vector<checkpoint::TensorView>& views, std::span<const Parameter> tensors) {
  for (const Parameter& tensor : tensors) {
    const Buffer memory = memoryOf(tensor.tensor, tensor.name);
    views.push_back({tensor.name, memory.type(), tensor.tensor.sizes().vec(), memory.bytes()});
  }
}

void appendTargets(std::vector<checkpoint::Target>& targets, std::span<const Parameter> tensors) {
  for (const Parameter& tensor : tensors) {
    const Buffer memory = memoryOf(tensor.tensor, tensor.name);
    targets.push_back({tensor.name, memory.type(), tensor.tensor.sizes().vec(), memory.bytes()});
  }
}

// Rank 0's tensors on every rank.
class SharedViews {
 public:
  SharedViews(Group& group, std::span<const checkpoint::TensorView> mine) {
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
      view.shape.resize(reader.number<std::uint32_t>());
      for (std::int64_t& length : view.shape) length = reader.number<std::int64_t>();
      view.bytes = std::span(memory_).subspan(offset, reader.number<std::uint64_t>());
      offset += view.bytes.size();
    }
    COLLA_CHECK(reader.done());  // Our own writing.
  }

  std::span<const checkpoint::TensorView> views() const { return views_; }

 private:
  std::vector<std::byte> memory_;
  std::vector<checkpoint::TensorView> views_;
};

}  // namespace

void saveState(checkpoint::Saver& saver, const checkpoint::Manifest& manifest, Replica& replica) {
  std::vector<checkpoint::TensorView> parameters;
  appendViews(parameters, replica.parameters());
  appendViews(parameters, replica.frozen());
  std::vector<checkpoint::TensorView> buffers;
  appendViews(buffers, replica.buffers());
  const std::vector<checkpoint::TensorView> optimizer = replica.updater().state();
  throwIfError(saver.start(manifest,
                           {.parameters = parameters, .buffers = buffers, .optimizer = optimizer}));
}

void restoreModel(Group& group, Replica& replica, const checkpoint::Loaded* loaded) {
  if (loaded != nullptr) {
    std::vector<checkpoint::Target> targets;
    appendTargets(targets, replica.parameters());
    appendTargets(targets, replica.frozen());
    appendTargets(targets, replica.buffers());
    throwIfError(checkpoint::restore(loaded->model(), targets).withContext(loaded->path()));
  }
  broadcastTensors(group, replica.parameters());
  broadcastTensors(group, replica.frozen());
  broadcastTensors(group, replica.buffers());
}

void restoreState(Group& group, Replica& replica, const checkpoint::Loaded* loaded) {
  restoreModel(group, replica, loaded);
  const SharedViews shared(
      group, loaded != nullptr ? loaded->optimizer() : std::span<const checkpoint::TensorView>());
  const Status status = replica.updater().restore(shared.views());
  throwIfError(loaded != nullptr ? status.withContext(loaded->path()) : status);
}

}  // namespace colla::train
