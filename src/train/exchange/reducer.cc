#include "train/exchange/reducer.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <sstream>

#include "base/check.h"
#include "colla/error.h"
#include "collective/kernels.h"
#include "train/exchange/row_gradient.h"
#include "train/exchange/tensor_views.h"
#include "train/tensors.h"

namespace colla::train {
namespace {

bool isGradient(const Reducer::Entry& entry) { return entry.kind == Reducer::Kind::kGradient; }

[[noreturn]] void refuse(const Reducer::Entry& entry, const std::string& why) {
  throw Error(
      StatusCode::kInvalidArgument,
      fmt::format("{} \"{}\" {}", isGradient(entry) ? "parameter" : "buffer", entry.name, why));
}

// Partial sums and levels of the tree: enough for any number of slices.
constexpr int kMostBuffers = 80;

// 1 in each of the types that buckets have.
std::uint64_t bitsOfOne(DataType type) {
  switch (type) {
    case DataType::kUInt8:
      return 1;
    case DataType::kFloat64:
      return std::bit_cast<std::uint64_t>(1.0);
    default:
      return std::bit_cast<std::uint32_t>(1.0f);
  }
}

// The type that an entry is summed in: 16-bit floats are added as float32, and rounded once all
// slices are in.
DataType sumTypeOf(DataType type) {
  return collective::wideningFor(type) != nullptr ? DataType::kFloat32 : type;
}

torch::Tensor as(torch::ScalarType type, const torch::Tensor& tensor) {
  return tensor.scalar_type() == type ? tensor : tensor.to(type);
}

// Adds, for each row-sparse matrix that travels dense, an entry with one number per row: above 0 if
// some slice has a gradient for the row.
std::vector<Reducer::Entry> withPresence(std::vector<Reducer::Entry> entries) {
  const std::size_t count = entries.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (!entries[i].travelsDense) continue;
    COLLA_CHECK(entries[i].rowSparse);
    const std::int64_t rows = entries[i].tensor.size(0);
    entries.push_back({entries[i].name + "'s rows", torch::zeros({rows}), Reducer::Kind::kSum});
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
        partials.emplace_back(buffers.back(), plan.count, plan.type);
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
  std::vector<Bucket> shared;         // Partial sums,
  std::vector<ConstBuffer> partials;  // and what an allreduce sees of them.
  std::vector<torch::Tensor> levels;  // What they are folded from.
  std::vector<std::byte*> buffers;
  std::vector<std::byte> flags;  // Of the present slice: 1 for members whose value counts.
  std::vector<bool> seen;        // Members that had their value in the present slice.
  std::size_t missing;           // How many had not.
  bool ready = false;            // All slices are in.
  std::optional<Handle> handle;
};

Reducer::Entry Reducer::entryOf(const Parameter& buffer) {
  return {buffer.name, summable(buffer.tensor),
          buffer.tensor.is_floating_point() ? Kind::kSum : Kind::kFirst};
}

Reducer::Reducer(const Workers& workers, std::vector<Entry> entries, const Options& options)
    : workers_(workers),
      range_(workers.slices()),
      entries_(withPresence(std::move(entries))),
      presence_(entries_.size(), -1),
      options_(options),
      sums_(entries_.size()),
      next_(range_.begin) {
  std::vector<std::size_t> widths;
  // Presence comes last, in the order of the matrices.
  auto presence = static_cast<int>(entries_.size()) -
                  static_cast<int>(std::ranges::count(entries_, true, &Entry::travelsDense));
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    const Buffer memory = memoryOf(entry.tensor, entry.name);
    extents_.push_back({sumTypeOf(memory.type()), memory.count()});
    matrices_.push_back(entry.rowSparse && !entry.travelsDense ? static_cast<int>(widths.size())
                                                               : -1);
    if (entry.travelsDense) presence_[i] = presence++;
    if (!entry.rowSparse) continue;
    if (options_.op != ReduceOp::kSum) {
      refuse(entry,
             "has gradients of rows, which can be summed but not averaged: train it with a "
             "Trainer, or on servers");
    }
    if (memory.type() != DataType::kFloat32 || entry.tensor.dim() < 1 || memory.count() == 0) {
      refuse(entry, "can't have gradients of rows: it is not a float32 matrix");
    }
    if (entry.travelsDense) continue;
    widths.push_back(memory.count() / static_cast<std::size_t>(entry.tensor.size(0)));
  }
  if (!widths.empty()) rows_.emplace(workers.map, workers.rank(), std::move(widths));
  // A first guess: backward reaches the last parameters first, and buffers come after it.
  std::vector<int> order;
  for (int i = static_cast<int>(entries_.size()) - 1; i >= 0; --i) {
    if (isGradient(entries_[i]) && matrices_[i] < 0) order.push_back(i);
  }
  for (int i = 0; i < static_cast<int>(entries_.size()); ++i) {
    if (!isGradient(entries_[i])) order.push_back(i);
  }
  build(order);
  if (!options_.hooks) return;
  std::vector<std::pair<int, torch::Tensor>> parameters;
  for (int i = 0; i < static_cast<int>(entries_.size()); ++i) {
    if (isGradient(entries_[i])) parameters.emplace_back(i, entries_[i].tensor);
  }
  hooks_.emplace(std::move(parameters),
                 [this](int entry, const torch::Tensor& gradient) { take(entry, gradient); });
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
  BucketPlans plans = planBuckets(extents_, order, options_.bucketBytes);
  tail_ = plans.tail;
  for (BucketPlan& plan : plans.buckets) {
    const auto& bucket = buckets_.emplace_back(std::make_unique<SharedBucket>(
        std::move(plan), workers_.map.subtrees(workers_.rank()), workers_.job));
    for (int member = 0; const auto& [entry, offset] : bucket->plan.members) {
      const torch::Tensor& tensor = entries_[entry].tensor;
      places_[entry] = {static_cast<int>(buckets_.size()) - 1, member++};
      views_[entry] = torch::from_blob(bucket->buffers[0] + offset * sizeOf(bucket->plan.type),
                                       tensor.sizes(), scalarTypeOf(bucket->plan.type));
    }
  }
}

void Reducer::beginSlice(int slice) {
  COLLA_CHECK(!slice_ && slice == next_ && slice < range_.end);
  slice_ = slice;
}

void Reducer::add(int entry, const torch::Tensor& value, bool changed) {
  if (entries_[entry].kind == Kind::kSum) return put(entry, value, changed);
  if (slice_ == 0) put(entry, value, /*counts=*/true);
}

void Reducer::put(int entry, const torch::Tensor& value, bool counts) {
  const Entry& target = entries_[entry];
  if (!slice_) {
    if (!options_.oneSlicePerBackward) refuse(target, "got a gradient outside of a step");
    if (missingSlices() == 0) {
      refuse(target, "got a gradient of one slice too many: call step() first");
    }
    beginSlice(next_);
    torch::autograd::Engine::get_default_engine().queue_callback([this] { endSlice(); });
  }
  if (target.rowSparse) return takeRows(entry, value);
  putInBucket(entry, (value.is_sparse() ? value.to_dense() : value).contiguous(), counts);
}

// One slice's value, in its bucket.
void Reducer::putInBucket(int entry, const torch::Tensor& dense, bool counts) {
  const Entry& target = entries_[entry];
  const auto [bucketIndex, member] = places_[entry];
  SharedBucket& bucket = *buckets_[bucketIndex];
  if (bucket.seen[member]) {
    refuse(target, "got two gradients in one slice: add up the losses and call backward() once");
  }
  const torch::Tensor& view = views_[entry];
  if (dense.sizes() != view.sizes() ||
      scalarTypeOf(sumTypeOf(dataTypeOf(dense, target.name))) != view.scalar_type()) {
    std::ostringstream shapes;
    shapes << "changed from " << view.sizes() << " " << view.scalar_type() << " to "
           << dense.sizes() << " " << dense.scalar_type()
           << ": shapes and types must stay while it is trained";
    refuse(target, shapes.str());
  }
  SharedBucket::Pointers pointers;
  bucket.sums.add(*slice_, bucket.at(bucket.plan.members[member].offset, pointers),
                  as(view.scalar_type(), dense).data_ptr(), extents_[entry].count);
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
  if (target.travelsDense) {
    const auto width = static_cast<std::size_t>(target.tensor.numel() / target.tensor.size(0));
    return putRows(entry, collective::gatherRows(gradient.rows(), gradient.values(), width));
  }
  rows_->add(matrices_[entry], *slice_, gradient.rows(), gradient.values());
}

void Reducer::putRows(int entry, const collective::Rows& rows) {
  const torch::Tensor& tensor = entries_[entry].tensor;
  const torch::Tensor dense = torch::zeros(tensor.sizes());
  const torch::Tensor present = torch::zeros({tensor.size(0)});
  const auto width = tensor.numel() / tensor.size(0);
  for (std::size_t i = 0; i < rows.rows.size(); ++i) {
    std::copy_n(rows.values.data() + i * static_cast<std::size_t>(width), width,
                dense.data_ptr<float>() + rows.rows[i] * width);
    present.data_ptr<float>()[rows.rows[i]] = 1;
  }
  putInBucket(entry, dense, true);
  putInBucket(presence_[entry], present, true);
}

// The sums are sparse tensors whose memory is rows_'s.
void Reducer::finishRows() {
  if (!rows_) return;
  throwIfError(
      counted([&] { return rows_->finish(workers_.group); }, [&] { return rows_->bytes(); }));
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

// Makes matrices that travelled dense sparse again: only rows that some slice had a gradient for.
void Reducer::finishDenseRows() {
  for (int entry = 0; entry < static_cast<int>(entries_.size()); ++entry) {
    if (presence_[entry] < 0) continue;
    const torch::Tensor& tensor = entries_[entry].tensor;
    torch::Tensor sum;
    if (sums_[entry].defined()) {
      const torch::Tensor rows = sums_[presence_[entry]].nonzero().flatten();
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
    if (entries_[entry].kind == Kind::kFirst && *slice_ == 0) {  // Slice 0 left it as it was.
      bucket.sums.add(*slice_, bucket.at(offset, pointers), entries_[entry].tensor.data_ptr(),
                      extents_[entry].count);
      bucket.setFlag(member);
    } else {
      bucket.sums.addZeros(*slice_, bucket.at(offset, pointers), extents_[entry].count);
    }
  }
  bucket.sums.add(*slice_, bucket.at(bucket.plan.flags, pointers), bucket.flags.data(),
                  bucket.seen.size());
  std::ranges::fill(bucket.flags, std::byte{0});
  bucket.missing = 0;
  bucket.ready = *slice_ == range_.end - 1;
}

// All but the tail, which nothing can hide any more, leave in their order on the progress thread:
// most while backward runs, and those that some worker has no gradients for at its end, so that
// every worker has started the same ones when the tail follows.
void Reducer::startReady() {
  if (workers_.size() == 1) return;
  while (started_ + tail_ < buckets_.size() && buckets_[started_]->ready) {
    SharedBucket& bucket = *buckets_[started_++];
    bucket.handle = workers_.group.async([this, &bucket](Group& group) {
      const collective::SumPart part = partOf(bucket);
      return counted(
          [&] {
            return allreduce(group, workers_.map, part.partials, part.result, {.op = options_.op});
          },
          [&] { return part.result.bytes().size(); });
    });
  }
}

template <typename Exchange, typename Bytes>
Status Reducer::counted(const Exchange& exchange, const Bytes& bytes) const {
  if (options_.metrics == nullptr || workers_.size() == 1) return exchange();
  const TimePoint began = std::chrono::steady_clock::now();
  const Status status = exchange();
  options_.metrics->exchanged(bytes(), began, std::chrono::steady_clock::now());
  return status;
}

collective::SumPart Reducer::partOf(SharedBucket& bucket) const {
  return {bucket.partials, Buffer(bucket.buffers[0], bucket.plan.count, bucket.plan.type)};
}

// What no handle is under way for: the tail, or with one worker everything.
Status Reducer::exchangeTail() {
  std::vector<collective::SumPart> parts;
  std::size_t bytes = 0;
  for (std::size_t i = started_; i < buckets_.size(); ++i) {
    parts.push_back(partOf(*buckets_[i]));
    bytes += parts.back().result.bytes().size();
  }
  return counted(
      [&] {
        return collective::allreduceTogether(workers_.group, workers_.map, parts,
                                             {.op = options_.op});
      },
      [&] { return bytes; });
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
  if (options_.metrics != nullptr)
    options_.metrics->backwardEnded(std::chrono::steady_clock::now());
  Status status;
  for (const auto& bucket : buckets_) {
    COLLA_CHECK(bucket->ready);
    bucket->ready = false;
    if (!bucket->handle) continue;
    const Status done = bucket->handle->wait();
    if (status.ok()) status = done;
    bucket->handle.reset();
  }
  if (status.ok()) status = exchangeTail();
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
  for (std::size_t entry = 0; entry < entries_.size(); ++entry) {
    if (!sums_[entry].defined()) continue;
    sums_[entry] = as(entries_[entry].tensor.scalar_type(), sums_[entry]);
  }
  for (int entry = 0; entry < static_cast<int>(entries_.size()); ++entry) {
    if (!isGradient(entries_[entry]) || matrices_[entry] >= 0 || presence_[entry] >= 0) continue;
    entries_[entry].tensor.mutable_grad() = sums_[entry];
  }
  finishDenseRows();
}

// Rank 0's order becomes everybody's, at the end of the first step: its sums, which nobody has seen
// yet, move with the buckets. Whoever gets them may keep them until the next backward.
void Reducer::learnOrder() {
  order_ = Order::kLearned;
  if (workers_.size() == 1 || buckets_.size() <= tail_) return;
  for (int entry = 0; entry < static_cast<int>(entries_.size()); ++entry) {
    if (matrices_[entry] >= 0) continue;
    if (std::ranges::find(ready_, entry) == ready_.end()) ready_.push_back(entry);
  }
  throwIfError(broadcast(workers_.group, ready_, 0));
  const auto before = std::move(buckets_);
  build(ready_);
  for (int entry = 0; entry < static_cast<int>(entries_.size()); ++entry) {
    if (matrices_[entry] >= 0 || !sums_[entry].defined()) continue;
    sums_[entry] = views_[entry].copy_(sums_[entry]);
  }
}

}  // namespace colla::train
