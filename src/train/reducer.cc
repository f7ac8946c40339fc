#include "train/reducer.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <sstream>

#include "base/check.h"
#include "colla/error.h"
#include "train/row_gradient.h"
#include "train/tensors.h"

namespace colla::train {
namespace {

[[noreturn]] void refuse(const Reducer::Entry& entry, const std::string& why) {
  throw Error(
      StatusCode::kInvalidArgument,
      fmt::format("{} \"{}\" {}", entry.parameter ? "parameter" : "buffer", entry.name, why));
}

// Partial sums and levels of the tree: enough for any number of slices.
constexpr int kMostBuffers = 80;

// 1 in each of the floating-point types.
std::uint64_t bitsOfOne(DataType type) {
  switch (type) {
    case DataType::kFloat64:
      return std::bit_cast<std::uint64_t>(1.0);
    case DataType::kBFloat16:
      return 0x3f80;
    case DataType::kFloat16:
      return 0x3c00;
    default:
      return std::bit_cast<std::uint32_t>(1.0f);
  }
}

// An entry for each whole one, with a number for each of its rows.
std::vector<Reducer::Entry> withTelling(std::vector<Reducer::Entry> entries) {
  const std::size_t count = entries.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (!entries[i].whole) continue;
    COLLA_CHECK(entries[i].rowSparse);
    const std::int64_t rows = entries[i].tensor.size(0);
    entries.push_back({entries[i].name + "'s rows", torch::zeros({rows}), false});
  }
  return entries;
}

}  // namespace

struct Reducer::SharedBucket {
  SharedBucket(BucketPlan bucketPlan, std::vector<SliceRange> subtrees, Job& job)
      : plan(std::move(bucketPlan)),
        sums(std::move(subtrees), plan.type),
        flags(plan.members.size() * sizeOf(plan.type)),
        seen(plan.members.size(), false),
        missing(plan.members.size()) {
    const std::size_t bytes = plan.count * sizeOf(plan.type);
    COLLA_CHECK(sums.buffers() <= kMostBuffers);
    for (int i = 0; i < sums.buffers(); ++i) {
      if (i < sums.partials()) {
        shared.push_back(valueOrThrow(job.allocate(bytes)));
        buffers.push_back(shared.back().bytes().data());
      } else {
        levels.push_back(torch::empty({static_cast<std::int64_t>(bytes)}, torch::kByte));
        buffers.push_back(static_cast<std::byte*>(levels.back().data_ptr()));
      }
    }
  }

  using Pointers = std::array<std::byte*, kMostBuffers>;
  // The buffers from element `offset` on.
  std::span<std::byte* const> at(std::size_t offset, Pointers& pointers) const {
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      pointers[i] = buffers[i] + offset * sizeOf(plan.type);
    }
    return {pointers.data(), buffers.size()};
  }

  void setFlag(std::size_t member) {
    const std::uint64_t one = bitsOfOne(plan.type);
    std::memcpy(flags.data() + member * sizeOf(plan.type), &one, sizeOf(plan.type));
  }

  BucketPlan plan;
  collective::PartialSums sums;
  std::vector<Bucket> shared;         // Partial sums.
  std::vector<torch::Tensor> levels;  // What they are folded from.
  std::vector<std::byte*> buffers;
  std::vector<std::byte> flags;  // Of the present slice: 1 for members whose value counts.
  std::vector<bool> seen;        // Members that had their value in the present slice.
  std::size_t missing;           // How many had not.
  bool ready = false;            // All slices are in.
  std::optional<Handle> handle;
};

Reducer::Reducer(Job& job, SliceMap map, std::vector<Entry> entries, const Options& options)
    : job_(job),
      map_(std::move(map)),
      range_(map_.range(job.rank())),
      entries_(withTelling(std::move(entries))),
      tells_(entries_.size(), -1),
      options_(options),
      sums_(entries_.size()),
      next_(range_.begin) {
  std::vector<std::size_t> widths;
  // The entries that tell come last, in the order of the whole ones.
  auto telling = static_cast<int>(entries_.size()) -
                 static_cast<int>(std::ranges::count(entries_, true, &Entry::whole));
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    const Buffer memory = memoryOf(entry.tensor, entry.name);
    extents_.push_back({memory.type(), memory.count()});
    matrices_.push_back(entry.rowSparse && !entry.whole ? static_cast<int>(widths.size()) : -1);
    if (entry.whole) tells_[i] = telling++;
    if (!entry.rowSparse) continue;
    COLLA_CHECK(options_.op == ReduceOp::kSum);
    if (memory.type() != DataType::kFloat32 || entry.tensor.dim() < 1 || memory.count() == 0) {
      refuse(entry, "can't have gradients of rows: it is no float32 matrix");
    }
    if (entry.whole) continue;
    widths.push_back(memory.count() / static_cast<std::size_t>(entry.tensor.size(0)));
  }
  if (!widths.empty()) rows_.emplace(map_, job.rank(), std::move(widths));
  // A first guess: backward reaches the last parameters first, and buffers come after it.
  std::vector<int> order;
  for (int i = static_cast<int>(entries_.size()) - 1; i >= 0; --i) {
    if (entries_[i].parameter && matrices_[i] < 0) order.push_back(i);
  }
  for (int i = 0; i < static_cast<int>(entries_.size()); ++i) {
    if (!entries_[i].parameter) order.push_back(i);
  }
  build(order);
  std::vector<std::pair<int, torch::Tensor>> parameters;
  for (int i = 0; i < static_cast<int>(entries_.size()); ++i) {
    if (entries_[i].parameter) parameters.emplace_back(i, entries_[i].tensor);
  }
  hooks_.emplace(std::move(parameters),
                 [this](int entry, const torch::Tensor& grad) { take(entry, grad, true); });
}

Reducer::~Reducer() {
  for (const auto& bucket : buckets_) {
    if (bucket->handle) static_cast<void>(bucket->handle->wait());
  }
}

void Reducer::build(std::span<const int> order) {
  buckets_.clear();
  places_.assign(entries_.size(), {});
  views_.assign(entries_.size(), {});
  for (BucketPlan& plan : planBuckets(extents_, order, options_.bucketBytes)) {
    const auto& bucket = buckets_.emplace_back(
        std::make_unique<SharedBucket>(std::move(plan), map_.subtrees(job_.rank()), job_));
    for (int member = 0; const auto& [entry, offset] : bucket->plan.members) {
      const torch::Tensor& tensor = entries_[entry].tensor;
      places_[entry] = {static_cast<int>(buckets_.size()) - 1, member++};
      views_[entry] = torch::from_blob(bucket->buffers[0] + offset * tensor.element_size(),
                                       tensor.sizes(), tensor.scalar_type());
    }
  }
}

void Reducer::beginSlice(int slice) {
  COLLA_CHECK(!slice_ && slice == next_ && slice < range_.end);
  slice_ = slice;
}

void Reducer::add(int entry, const torch::Tensor& value, bool changed) {
  take(entry, value, changed);
}

void Reducer::take(int entry, const torch::Tensor& value, bool counts) {
  const Entry& target = entries_[entry];
  if (!slice_) {
    if (!options_.sliceIsBackward) refuse(target, "got a gradient outside of a step");
    if (missingSlices() == 0) {
      refuse(target, "got a gradient of one slice too many: call step() first");
    }
    beginSlice(next_);
    torch::autograd::Engine::get_default_engine().queue_callback([this] { endSlice(); });
  }
  if (target.rowSparse) return takeRows(entry, value);
  put(entry, (value.is_sparse() ? value.to_dense() : value).contiguous(), counts);
}

// One slice's value, in its bucket.
void Reducer::put(int entry, const torch::Tensor& dense, bool counts) {
  const Entry& target = entries_[entry];
  const auto [bucketIndex, member] = places_[entry];
  SharedBucket& bucket = *buckets_[bucketIndex];
  if (bucket.seen[member]) {
    refuse(target, "got two gradients in one slice: add up the losses and call backward() once");
  }
  if (dense.sizes() != views_[entry].sizes() ||
      dense.scalar_type() != views_[entry].scalar_type()) {
    std::ostringstream shapes;
    shapes << "changed from " << views_[entry].sizes() << " " << views_[entry].scalar_type()
           << " to " << dense.sizes() << " " << dense.scalar_type()
           << ": shapes and types must stay while it is trained";
    refuse(target, shapes.str());
  }
  SharedBucket::Pointers pointers;
  bucket.sums.add(*slice_, bucket.at(bucket.plan.members[member].offset, pointers),
                  dense.data_ptr(), extents_[entry].count);
  bucket.seen[member] = true;
  if (counts) bucket.setFlag(static_cast<std::size_t>(member));
  if (order_ == Order::kUnknown) ready_.push_back(entry);
  if (--bucket.missing == 0) {
    complete(bucket);
    startReady();
  }
}

void Reducer::takeRows(int entry, const torch::Tensor& value) {
  const Entry& target = entries_[entry];
  const RowGradient gradient(target.name, target.tensor, value);
  if (target.whole) {
    const auto width = static_cast<std::size_t>(target.tensor.numel() / target.tensor.size(0));
    return putRows(entry, collective::gatherRows(gradient.rows(), gradient.values(), width));
  }
  rows_->add(matrices_[entry], *slice_, gradient.rows(), gradient.values());
}

void Reducer::putRows(int entry, const collective::Rows& rows) {
  const torch::Tensor& tensor = entries_[entry].tensor;
  const torch::Tensor dense = torch::zeros(tensor.sizes());
  const torch::Tensor there = torch::zeros({tensor.size(0)});
  const auto width = tensor.numel() / tensor.size(0);
  for (std::size_t i = 0; i < rows.rows.size(); ++i) {
    std::copy_n(rows.values.data() + i * static_cast<std::size_t>(width), width,
                dense.data_ptr<float>() + rows.rows[i] * width);
    there.data_ptr<float>()[rows.rows[i]] = 1;
  }
  put(entry, dense, true);
  put(tells_[entry], there, true);
}

// The sums are sparse tensors whose memory is rows_'s.
void Reducer::finishRows() {
  if (!rows_) return;
  throwIfError(rows_->finish(job_.world()));
  for (int entry = 0; entry < static_cast<int>(entries_.size()); ++entry) {
    if (matrices_[entry] < 0) continue;
    const Rows& sum = rows_->sum(matrices_[entry]);
    const torch::Tensor& tensor = entries_[entry].tensor;
    sums_[entry] = torch::Tensor();
    if (!sum.rows.empty()) {
      const auto count = static_cast<std::int64_t>(sum.rows.size());
      std::vector<std::int64_t> shape = tensor.sizes().vec();
      shape.front() = count;
      sums_[entry] = torch::_sparse_coo_tensor_unsafe(
          torch::from_blob(const_cast<std::int64_t*>(sum.rows.data()), {1, count}, torch::kInt64),
          torch::from_blob(const_cast<float*>(sum.values.data()), shape, torch::kFloat32),
          tensor.sizes());
      sums_[entry]._coalesced_(true);
    }
    tensor.mutable_grad() = sums_[entry];
  }
}

// After the buckets' sums: those rows of a whole one that some slice had.
void Reducer::finishWhole() {
  for (int entry = 0; entry < static_cast<int>(entries_.size()); ++entry) {
    if (tells_[entry] < 0) continue;
    const torch::Tensor& tensor = entries_[entry].tensor;
    torch::Tensor sum;
    if (sums_[entry].defined()) {
      const torch::Tensor rows = sums_[tells_[entry]].nonzero().flatten();
      if (rows.numel() > 0) {
        sum = torch::_sparse_coo_tensor_unsafe(rows.unsqueeze(0),
                                               sums_[entry].index_select(0, rows), tensor.sizes());
        sum._coalesced_(true);
      }
    }
    tensor.mutable_grad() = sum;
    sums_[entry] = sum;
  }
}

// Every member has its value of the present slice, or will get none.
void Reducer::complete(SharedBucket& bucket) {
  SharedBucket::Pointers pointers;
  for (std::size_t member = 0; member < bucket.seen.size(); ++member) {
    const auto& [entry, offset] = bucket.plan.members[member];
    if (bucket.seen[member]) continue;
    bucket.sums.addZeros(*slice_, bucket.at(offset, pointers), extents_[entry].count);
  }
  bucket.sums.add(*slice_, bucket.at(bucket.plan.flags, pointers), bucket.flags.data(),
                  bucket.seen.size());
  std::ranges::fill(bucket.flags, std::byte{0});
  bucket.missing = 0;
  bucket.ready = *slice_ == range_.end - 1;
}

// All but the last bucket, which nothing can hide any more, leave in their order on the progress
// thread: most while backward runs, and those that some worker has no gradients for at its end, so
// that every worker has started the same ones when the step's other exchanges follow.
void Reducer::startReady() {
  if (job_.size() == 1) return;
  while (started_ + 1 < buckets_.size() && buckets_[started_]->ready) {
    SharedBucket& bucket = *buckets_[started_++];
    bucket.handle = job_.world().async([this, &bucket](Group&) { return exchange(bucket); });
  }
}

Status Reducer::exchange(SharedBucket& bucket) {
  std::array<ConstBuffer, kMostBuffers> partials;
  for (int i = 0; i < bucket.sums.partials(); ++i) {
    partials[i] = ConstBuffer(bucket.buffers[i], bucket.plan.count, bucket.plan.type);
  }
  return allreduce(job_.world(), map_,
                   std::span(partials).first(static_cast<std::size_t>(bucket.sums.partials())),
                   Buffer(bucket.buffers[0], bucket.plan.count, bucket.plan.type),
                   {.op = options_.op});
}

void Reducer::endSlice() {
  COLLA_CHECK(slice_.has_value());
  for (const auto& bucket : buckets_) {
    if (bucket->missing > 0) complete(*bucket);
    bucket->missing = bucket->seen.size();
    bucket->seen.assign(bucket->seen.size(), false);
  }
  startReady();
  slice_.reset();
  ++next_;
  if (order_ == Order::kUnknown) order_ = Order::kSeen;  // One slice tells it.
}

void Reducer::finish() {
  const torch::NoGradGuard noGrad;
  Status status;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    SharedBucket& bucket = *buckets_[i];
    COLLA_CHECK(bucket.ready);
    const Status done = bucket.handle ? bucket.handle->wait() : exchange(bucket);
    if (status.ok()) status = done;
    bucket.handle.reset();
    bucket.ready = false;
  }
  started_ = 0;
  next_ = range_.begin;
  throwIfError(status);
  finishRows();

  for (const auto& bucket : buckets_) {
    const std::size_t size = sizeOf(bucket->plan.type);
    const std::byte* flag = bucket->buffers[0] + bucket->plan.flags * size;
    for (const auto& [entry, offset] : bucket->plan.members) {
      const bool any =
          std::any_of(flag, flag + size, [](std::byte byte) { return byte != std::byte{0}; });
      flag += size;
      sums_[entry] = any ? views_[entry] : torch::Tensor();
    }
  }
  if (order_ == Order::kSeen) learnOrder();
  for (int entry = 0; entry < static_cast<int>(entries_.size()); ++entry) {
    if (!entries_[entry].parameter || matrices_[entry] >= 0 || tells_[entry] >= 0) continue;
    entries_[entry].tensor.mutable_grad() = sums_[entry];
  }
  finishWhole();
}

// Rank 0's order becomes everybody's, at the end of the first step: its sums, which nobody has seen
// yet, move with the buckets. Whoever gets them may keep them until the next backward.
void Reducer::learnOrder() {
  order_ = Order::kLearned;
  if (job_.size() == 1 || buckets_.size() <= 1) return;
  for (int entry = 0; entry < static_cast<int>(entries_.size()); ++entry) {
    if (matrices_[entry] >= 0) continue;
    if (std::ranges::find(ready_, entry) == ready_.end()) ready_.push_back(entry);
  }
  throwIfError(broadcast(job_.world(), ready_, 0));
  const auto before = std::move(buckets_);
  build(ready_);
  for (int entry = 0; entry < static_cast<int>(entries_.size()); ++entry) {
    if (matrices_[entry] >= 0 || !sums_[entry].defined()) continue;
    sums_[entry] = views_[entry].copy_(sums_[entry]);
  }
}

}  // namespace colla::train
