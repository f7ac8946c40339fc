#include "checkpoint/saver.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <exception>
#include <string_view>
#include <utility>

namespace colla::checkpoint {
namespace {

std::size_t roundedUp(std::size_t bytes) {
  return (bytes + kDataAlignment - 1) / kDataAlignment * kDataAlignment;
}

std::size_t bytesOf(std::span<const TensorView> tensors) {
  std::size_t bytes = 0;
  for (const TensorView& tensor : tensors) bytes += roundedUp(tensor.bytes.size());
  return bytes;
}

// Copies to `memory` and moves it on.
std::vector<TensorView> copied(std::span<const TensorView> tensors, std::byte*& memory) {
  std::vector<TensorView> views(tensors.begin(), tensors.end());
  for (TensorView& view : views) {
    if (view.bytes.empty()) continue;
    std::memcpy(memory, view.bytes.data(), view.bytes.size());
    view.bytes = {memory, view.bytes.size()};
    memory += roundedUp(view.bytes.size());
  }
  return views;
}

}  // namespace

void Saver::Free::operator()(std::byte* memory) const { std::free(memory); }

Saver::Saver(Directory directory, SaverOptions options)
    : directory_(std::move(directory)), options_(std::move(options)), thread_([this] { run(); }) {}

Saver::~Saver() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Status Saver::start(const Manifest& manifest, const Contents& contents, More more, bool best) {
  COLLA_TRY(finish());
  COLLA_TRY(copy(manifest, contents));
  more_ = std::move(more);
  best_ = best;
  {
    const MutexLock lock(mutex_);
    busy_ = true;
  }
  changed_.notify_all();
  return {};
}

Status Saver::finish() {
  const MutexLock lock(mutex_);
  while (busy_) changed_.wait(mutex_);
  return std::exchange(error_, {});
}

Status Saver::markBest(std::int64_t step) {
  COLLA_TRY(finish());
  return directory_.markBest(step);
}

bool Saver::busy() {
  const MutexLock lock(mutex_);
  return busy_;
}

Status Saver::copy(const Manifest& manifest, const Contents& contents) {
  const std::size_t bytes =
      bytesOf(contents.parameters) + bytesOf(contents.buffers) + bytesOf(contents.optimizer);
  if (bytes > capacity_) {
    memory_.reset();  // Before the new one, so that there are never two.
    capacity_ = 0;
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kDataAlignment, bytes)));
    if (memory_ == nullptr) {
      return {StatusCode::kNoMemory,
              fmt::format("no memory for a copy of the {} bytes of the checkpoint of step {}",
                          bytes, manifest.step)};
    }
    capacity_ = bytes;
  }
  std::byte* memory = memory_.get();
  snapshot_.manifest = manifest;
  snapshot_.parameters = copied(contents.parameters, memory);
  snapshot_.buffers = copied(contents.buffers, memory);
  snapshot_.optimizer = copied(contents.optimizer, memory);
  return {};
}

void Saver::run() {
  for (;;) {
    {
      const MutexLock lock(mutex_);
      while (!busy_ && !stopping_) changed_.wait(mutex_);
      if (!busy_) return;
    }
    const Status status = write();
    {
      const MutexLock lock(mutex_);
      busy_ = false;
      if (error_.ok()) error_ = status;
    }
    changed_.notify_all();
  }
}

Status Saver::write() {
  const auto begin = std::chrono::steady_clock::now();
  const More more = std::exchange(more_, nullptr);
  if (more) {
    COLLA_TRY_ASSIGN(const Contents others, more());
    const auto append = [](std::vector<TensorView>& to, std::span<const TensorView> from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    append(snapshot_.parameters, others.parameters);
    append(snapshot_.buffers, others.buffers);
    append(snapshot_.optimizer, others.optimizer);
  }
  COLLA_TRY_ASSIGN(const Saved saved,
                   directory_.save(snapshot_.manifest,
                                   {snapshot_.parameters, snapshot_.buffers, snapshot_.optimizer}));
  const auto took = std::chrono::steady_clock::now() - begin;
  seconds_.observe(took);
  for (const auto* tensors : {&snapshot_.parameters, &snapshot_.buffers, &snapshot_.optimizer}) {
    for (const TensorView& tensor : *tensors) bytes_.add(tensor.bytes.size());
  }
  if (best_) COLLA_TRY(directory_.markBest(saved.step));
  const std::chrono::duration<double> seconds = took;
  // Also if an old one cannot be removed: this one is there.
  COLLA_TRY(report(saved, seconds.count()));
  return options_.keep > 0 ? directory_.prune(options_.keep, saved.step) : Status();
}

// Nobody above would catch what a program's own code throws on this thread.
Status Saver::report(const Saved& saved, double seconds) const {
  if (!options_.afterSave) return {};
  const auto failed = [&](std::string_view why) -> Status {
    return {StatusCode::kInternal, fmt::format("after the save of step {}: {}", saved.step, why)};
  };
  try {
    options_.afterSave(saved, seconds);
  } catch (const std::exception& error) {
    return failed(error.what());
  } catch (...) {
    return failed("something was thrown that is no std::exception");
  }
  return {};
}

}  // namespace colla::checkpoint
