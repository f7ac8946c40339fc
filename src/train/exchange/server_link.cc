#include "train/exchange/server_link.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "colla/error.h"
#include "ps/client_options.h"
#include "train/exchange/row_gradient.h"
#include "train/tensors.h"

namespace colla::train {
namespace {

ps::Entry entryOf(const Parameter& parameter, ps::Kind kind, int order) {
  return {.name = parameter.name,
          .kind = kind,
          .type = dataTypeOf(parameter.tensor, parameter.name),
          .shape = parameter.tensor.sizes().vec(),
          .order = order,
          .optimizer = parameter.optimizer};
}

// The order in which backward is expected to have gradients: the last parameters first.
ServerLink::Tensors inOrderOfBackward(ServerLink::Tensors tensors) {
  std::ranges::reverse(tensors.parameters);
  const auto middle =
      tensors.orders.begin() + static_cast<std::ptrdiff_t>(tensors.parameters.size());
  std::reverse(tensors.orders.begin(), middle);
  return tensors;
}

std::vector<std::size_t> widthsOf(std::span<const Parameter> tables) {
  std::vector<std::size_t> widths;
  for (const Parameter& table : tables) {
    if (table.tensor.scalar_type() != torch::kFloat32 || table.tensor.dim() < 1 ||
        table.tensor.numel() == 0) {
      throw Error(StatusCode::kInvalidArgument,
                  fmt::format("parameter \"{}\" can't have gradients of rows: it is not a float32 "
                              "matrix",
                              table.name));
    }
    widths.push_back(static_cast<std::size_t>(table.tensor.numel() / table.tensor.size(0)));
  }
  return widths;
}

}  // namespace

ServerLink::ServerLink(const Workers& workers, Tensors tensors, const ServerPlan& plan)
    : workers_(workers),
      oneSlicePerBackward_(plan.oneSlicePerBackward),
      range_(workers.slices()),
      tensors_(inOrderOfBackward(std::move(tensors))),
      floats_(workers.map.subtrees(workers.rank()), DataType::kFloat32),
      doubles_(workers.map.subtrees(workers.rank()), DataType::kFloat64),
      pointers_(static_cast<std::size_t>(floats_.buffers())),
      rows_(workers.map, workers.rank(), widthsOf(tensors_.tables)),
      next_(range_.begin),
      metrics_(plan.metrics) {
  const ps::ClientOptions options = ps::clientOptions(workers.job);
  client_ = valueOrThrow(ps::Client::connect(options, declaration(plan)));
  for (const Parameter& table : tensors_.tables) {
    fresh_.emplace_back(static_cast<std::size_t>(table.tensor.size(0)), 0);
  }
  if (workers.records()) snapshots_.emplace(options, client_->layout());
  for (int i = floats_.partials(); i < floats_.buffers(); ++i) {
    levels_.emplace_back(client_->layout().areaBytes());
  }
  const auto& layout = client_->layout();
  present_.resize(layout.entries().size());
  seen_.resize(layout.entries().size());
  blocksOf_.resize(layout.entries().size());
  missing_.resize(layout.blocks().size());
  for (std::size_t block = 0; block < layout.blocks().size(); ++block) {
    for (const ps::Piece& piece : layout.blocks()[block].pieces) {
      blocksOf_[piece.entry].push_back(static_cast<int>(block));
    }
  }
  for (int i = 0; i < firstTable(); ++i) moveIn(tensors_.parameters[i].tensor, i);
  for (std::size_t i = 0; i < tensors_.buffers.size(); ++i) {
    moveIn(tensors_.buffers[i].tensor, firstBuffer() + static_cast<int>(i));
  }
  if (!plan.hooks) return;
  std::vector<std::pair<int, torch::Tensor>> trained;
  for (int i = 0; i < firstTable(); ++i) trained.emplace_back(i, tensors_.parameters[i].tensor);
  for (std::size_t i = 0; i < tensors_.tables.size(); ++i) {
    trained.emplace_back(firstTable() + static_cast<int>(i), tensors_.tables[i].tensor);
  }
  hooks_.emplace(std::move(trained),
                 [this](int entry, const torch::Tensor& gradient) { take(entry, gradient); });
}

ps::Declaration ServerLink::declaration(const ServerPlan& plan) const {
  ps::Declaration declaration;
  for (std::size_t i = 0; i < tensors_.parameters.size(); ++i) {
    declaration.entries.push_back(
        entryOf(tensors_.parameters[i], ps::Kind::kParameter, tensors_.orders[i]));
  }
  for (std::size_t i = 0; i < tensors_.tables.size(); ++i) {
    declaration.entries.push_back(entryOf(tensors_.tables[i], ps::Kind::kRows,
                                          tensors_.orders[tensors_.parameters.size() + i]));
  }
  for (const Parameter& buffer : tensors_.buffers) {
    const bool floating = buffer.tensor.is_floating_point();
    declaration.entries.push_back(entryOf(buffer, floating ? ps::Kind::kMean : ps::Kind::kCopy, 0));
  }
  if (tensors_.numbers > 0) {
    declaration.entries.push_back({.name = "numbers",
                                   .kind = ps::Kind::kSum,
                                   .type = DataType::kFloat64,
                                   .shape = {static_cast<std::int64_t>(tensors_.numbers)}});
  }
  const Job& job = workers_.job;
  declaration.layout = {.servers = job.servers(), .partitions = plan.partitions};
  declaration.optimizer = plan.optimizer;
  declaration.policy = plan.policy;
  declaration.clipNorm = plan.clipNorm;
  declaration.threads = job.threads();
  for (int worker = 0; worker < workers_.size(); ++worker) {
    declaration.firstSlices.push_back(workers_.map.range(worker).begin);
  }
  declaration.firstSlices.push_back(workers_.map.slices());
  if (plan.policy.exact()) declaration.hosts = ps::hostsOf(job);
  return declaration;
}

// The model outlives the memory that its tensors are in, unless they have left it by now.
ServerLink::~ServerLink() {
  const torch::NoGradGuard noGrad;
  const std::span<const std::byte> area = client_->area();
  for (const auto* tensors : {&tensors_.parameters, &tensors_.buffers}) {
    for (const auto& [name, tensor, optimizer] : *tensors) {
      const auto* const data = static_cast<const std::byte*>(tensor.const_data_ptr());
      if (data < area.data() || data >= area.data() + area.size()) continue;
      torch::Tensor(tensor).set_data(tensor.detach().clone());
    }
  }
}

// The tensor's memory becomes its place in the area.
void ServerLink::moveIn(const torch::Tensor& tensor, int entry) {
  const torch::NoGradGuard noGrad;
  std::byte* const place = client_->area().data() + client_->layout().offsetOf(entry);
  torch::Tensor inArea = torch::from_blob(place, tensor.sizes(), tensor.scalar_type());
  inArea.copy_(tensor.detach());
  torch::Tensor(tensor).set_data(inArea);
}

std::int64_t ServerLink::waitForOthers() {
  const ps::Turn turn = valueOrThrow(client_->waitForOthers());
  ++turn_;
  return turn.step;
}

void ServerLink::beginSlice(int slice) {
  COLLA_CHECK(!slice_ && slice == next_ && slice < range_.end);
  if (slice == range_.begin) {
    const auto& blocks = client_->layout().blocks();
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      missing_[i] = static_cast<int>(blocks[i].pieces.size());
    }
    std::ranges::fill(present_, 0);
    pushed_.assign(tensors_.tables.size(), false);
  }
  slice_ = slice;
  seen_.assign(seen_.size(), false);
}

void ServerLink::give(int number, const torch::Tensor& gradient) {
  // Parameters are kept in the order of backward.
  take(number < firstTable() ? firstTable() - 1 - number : number, gradient);
}

void ServerLink::take(int entry, const torch::Tensor& gradient) {
  const ps::Entry& e = client_->layout().entries()[entry];
  const auto refuse = [&](std::string_view why) {
    throw Error(StatusCode::kInvalidArgument, fmt::format("parameter \"{}\" {}", e.name, why));
  };
  if (!slice_) {
    if (!oneSlicePerBackward_) refuse("got a gradient outside of a step");
    if (missingSlices() == 0) refuse("got a gradient of one slice too many: call step() first");
    beginSlice(next_);
    torch::autograd::Engine::get_default_engine().queue_callback([this] { endSlice(); });
  }
  if (seen_[entry]) {
    refuse("got two gradients in one slice: add up the losses and call backward() once");
  }
  const torch::Tensor share = oneSlicePerBackward_ ? gradient / workers_.map.slices() : gradient;
  if (entry >= firstTable()) return takeRows(entry - firstTable(), share);
  const torch::Tensor dense = (share.is_sparse() ? share.to_dense() : share).contiguous();
  if (dense.sizes() != torch::IntArrayRef(e.shape) || dataTypeOf(dense, e.name) != e.type) {
    refuse("got a gradient of a different shape or type");
  }
  present_[entry] = 1;
  add(entry, dense.data_ptr());
}

void ServerLink::takeRows(int table, const torch::Tensor& gradient) {
  const Parameter& target = tensors_.tables[table];
  const RowGradient rows(target.name, target.tensor, gradient);
  rows_.add(table, *slice_, rows.rows(), rows.values());
  if (!rows.rows().empty()) present_[firstTable() + table] = 1;
  seen_[firstTable() + table] = true;
  // Behind the last slice nothing is added: rows travel while backward, or an allreduce, goes on.
  if (*slice_ + 1 == range_.end) pushTable(table);
}

void ServerLink::pushTable(int table) {
  pushed_[table] = true;
  const std::vector<Rows> leaves = rows_.takePartials(table);
  std::size_t bytes = 0;
  for (const Rows& leaf : leaves) {
    bytes += std::span(leaf.rows).size_bytes() + std::span(leaf.values).size_bytes();
  }
  countPush(bytes);
  throwIfError(client_->pushRows(firstTable() + table, leaves));
}

void ServerLink::countPush(std::size_t bytes) {
  if (metrics_ == nullptr) return;
  if (!pushing_) pushing_ = std::chrono::steady_clock::now();
  uncounted_ += bytes;
}

// Pushes do not wait: what left by now travels beside the backward pass.
void ServerLink::backwardEnded() {
  if (metrics_ == nullptr) return;
  const TimePoint now = std::chrono::steady_clock::now();
  if (pushing_) metrics_->exchanged(uncounted_, *pushing_, now);
  pushing_.reset();
  uncounted_ = 0;
  metrics_->backwardEnded(now);
}

std::span<std::byte* const> ServerLink::buffersOf(int entry) {
  const std::size_t offset = client_->layout().offsetOf(entry);
  for (int i = 0; i < floats_.buffers(); ++i) {
    std::byte* const memory = i < floats_.partials()
                                  ? client_->partial(i).data()
                                  : levels_[i - floats_.partials()].bytes().data();
    pointers_[i] = memory + offset;
  }
  return pointers_;
}

// One slice's values.
void ServerLink::add(int entry, const void* values) {
  const ps::Entry& e = client_->layout().entries()[entry];
  if (e.kind == ps::Kind::kCopy) {
    keepFirst(entry, values);
  } else {
    (e.type == DataType::kFloat64 ? doubles_ : floats_)
        .add(*slice_, buffersOf(entry), values, e.count());
  }
  hasValue(entry);
}

// What can't be summed is the first slice's.
void ServerLink::keepFirst(int entry, const void* values) {
  if (*slice_ != range_.begin) return;
  for (int i = 0; i < floats_.partials(); ++i) {
    std::memcpy(buffersOf(entry)[i], values, client_->layout().entries()[entry].bytes());
  }
}

// A block whose last slice is in leaves at once.
void ServerLink::hasValue(int entry) {
  seen_[entry] = true;
  if (*slice_ + 1 < range_.end) return;
  for (const int block : blocksOf_[entry]) {
    if (--missing_[block] > 0) continue;
    countPush(client_->layout().blocks()[block].bytes);
    client_->push(block);
  }
}

void ServerLink::addZeros(int entry) {
  const ps::Entry& e = client_->layout().entries()[entry];
  if (e.kind == ps::Kind::kCopy) {
    keepFirst(entry, tensors_.buffers[entry - firstBuffer()].tensor.const_data_ptr());
  } else {
    (e.type == DataType::kFloat64 ? doubles_ : floats_)
        .addZeros(*slice_, buffersOf(entry), e.count());
  }
  hasValue(entry);
}

void ServerLink::addBuffer(int buffer, const torch::Tensor& value, bool changed) {
  const int entry = firstBuffer() + buffer;
  if (changed) present_[entry] = 1;
  add(entry, value.contiguous().data_ptr());
}

void ServerLink::addNumbers(std::span<const double> numbers) {
  COLLA_CHECK(numbers.size() == tensors_.numbers);
  present_[numbersEntry()] = 1;
  add(numbersEntry(), numbers.data());
}

void ServerLink::endSlice() {
  COLLA_CHECK(slice_.has_value());
  const auto entries = client_->layout().entries();
  for (int entry = 0; entry < static_cast<int>(entries.size()); ++entry) {
    if (!seen_[entry] && entries[entry].kind != ps::Kind::kRows) addZeros(entry);
  }
  slice_.reset();
  ++next_;
}

ServerLink::End ServerLink::finish(ps::Finish finish) {
  if (!finish.empty) backwardEnded();
  const TimePoint began = std::chrono::steady_clock::now();
  if (finish.empty) {
    std::ranges::fill(present_, 0);
  } else {
    COLLA_CHECK(next_ == range_.end);
    for (int table = 0; table < static_cast<int>(pushed_.size()); ++table) {
      if (!pushed_[table]) pushTable(table);
    }
  }
  next_ = range_.begin;
  finish.present = present_;
  const ps::Turn turn = valueOrThrow(client_->finish(finish));
  if (metrics_ != nullptr && !finish.empty) {
    metrics_->exchanged(uncounted_, began, std::chrono::steady_clock::now());
    uncounted_ = 0;
    pushing_.reset();
  }
  ++turn_;
  std::span<const double> numbers;
  if (tensors_.numbers > 0) {
    numbers = {reinterpret_cast<const double*>(client_->area().data() +
                                               client_->layout().offsetOf(numbersEntry())),
               tensors_.numbers};
  }
  return {turn, numbers};
}

void ServerLink::refresh(const torch::Tensor& table, const torch::Tensor& rows) {
  const auto found = std::ranges::find_if(tensors_.tables, [&](const Parameter& known) {
    return known.tensor.const_data_ptr() == table.const_data_ptr();
  });
  if (found == tensors_.tables.end()) return;
  const auto number = static_cast<std::size_t>(found - tensors_.tables.begin());
  const torch::Tensor wanted = rows.to(torch::kInt64).contiguous();
  std::vector<std::int64_t> stale;
  for (const std::int64_t row :
       std::span(wanted.const_data_ptr<std::int64_t>(), static_cast<std::size_t>(wanted.numel()))) {
    if (row < 0 || row >= found->tensor.size(0)) continue;  // libtorch's own error is coming.
    if (std::exchange(fresh_[number][static_cast<std::size_t>(row)], turn_) != turn_) {
      stale.push_back(row);
    }
  }
  if (stale.empty()) return;
  const std::size_t width =
      client_->layout().entries()[firstTable() + static_cast<int>(number)].width();
  std::vector<float> values(stale.size() * width);
  throwIfError(client_->pullRows(firstTable() + static_cast<int>(number), stale, values));
  auto* const memory = static_cast<float*>(found->tensor.data_ptr());
  for (std::size_t i = 0; i < stale.size(); ++i) {
    std::copy_n(values.data() + i * width, width,
                memory + static_cast<std::size_t>(stale[i]) * width);
  }
}

void ServerLink::refreshAll() {
  for (const Parameter& table : tensors_.tables) {
    constexpr std::int64_t kAtOnce = 65536;
    for (std::int64_t first = 0; first < table.tensor.size(0); first += kAtOnce) {
      const std::int64_t end = std::min(first + kAtOnce, table.tensor.size(0));
      refresh(table.tensor, torch::arange(first, end, torch::kInt64));
    }
  }
}

ps::Statistics ServerLink::statistics() { return valueOrThrow(client_->statistics()); }

void ServerLink::leave(bool again) { throwIfError(client_->leave(again)); }

}  // namespace colla::train
