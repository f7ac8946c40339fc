#include "data/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "colla/error.h"

namespace colla::data {
namespace {

constexpr int kDefaultThreads = 2;

std::int64_t countOf(const LoaderOptions& options) {
  std::int64_t count = 0;
  const bool tooMany = __builtin_mul_overflow(options.endStep - options.firstStep,
                                              std::int64_t{options.slices.size()}, &count);
  return tooMany ? std::numeric_limits<std::int64_t>::max() : count;
}

// What a program's own data set throws becomes a Status: nobody is above a prefetch thread to catch
// it. One line of it: libtorch adds the functions that it went through.
template <typename Body>
Result<Batch> caughtRead(const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    return error.status();
  } catch (const std::bad_alloc&) {
    return {StatusCode::kNoMemory, "no memory left"};
  } catch (const std::exception& error) {
    const std::string_view text = error.what();
    return {StatusCode::kInternal, std::string(text.substr(0, text.find('\n')))};
  } catch (...) {
    return {StatusCode::kInternal, "something was thrown that is no std::exception"};
  }
}

}  // namespace

Result<std::unique_ptr<Loader>> Loader::create(std::shared_ptr<const Dataset> dataset,
                                               const Order& order, const LoaderOptions& options) {
  const auto [begin, end] = options.slices;
  if (begin < 0 || end <= begin || end > order.options().slices) {
    return {StatusCode::kInvalidArgument,
            fmt::format("cannot load slices {} to {} of {}", begin, end, order.options().slices)};
  }
  if (dataset->size() != order.options().samples) {
    return {StatusCode::kInvalidArgument,
            fmt::format("an order of {} samples does not fit a data set of {}",
                        order.options().samples, dataset->size())};
  }
  if (options.firstStep < 0 || options.endStep < options.firstStep || options.ahead < 1 ||
      options.threads < LoaderOptions::kAutoThreads) {
    return {StatusCode::kInvalidArgument,
            fmt::format("cannot load steps {} to {} with {} threads, {} batches ahead",
                        options.firstStep, options.endStep, options.threads, options.ahead)};
  }
  return std::unique_ptr<Loader>(new Loader(std::move(dataset), order, options));
}

Loader::Loader(std::shared_ptr<const Dataset> dataset, const Order& order,
               const LoaderOptions& options)
    : dataset_(std::move(dataset)),
      check_(dataset_),
      order_(order),
      options_(options),
      end_(countOf(options)) {
  int threads = options.threads;
  if (threads == LoaderOptions::kAutoThreads) {
    threads = dataset_->inMemory() ? 0 : kDefaultThreads;
  }
  threads = std::min(threads, options.ahead);  // More would have nothing to do.
  {
    const MutexLock lock(mutex_);
    slots_.resize(options.ahead);
  }
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { prefetch(); });
}

Loader::~Loader() {
  stop();
  for (std::thread& thread : threads_) thread.join();
}

void Loader::stop() {
  const MutexLock lock(mutex_);
  stopping_ = true;
  space_.notify_all();
}

Result<Batch> Loader::next() {
  if (!failed_.ok()) return failed_;
  Result<Batch> batch = take();
  if (!batch.ok()) {
    failed_ = batch.status();
    stop();  // What lies behind an error is not going to be asked for.
  } else {
    batches_.add();
  }
  return batch;
}

Result<Batch> Loader::take() {
  std::int64_t number = 0;
  {
    const MutexLock lock(mutex_);
    number = taken_;
    if (number == end_) {
      return {StatusCode::kInvalidArgument,
              fmt::format("step {} is behind the last one to load", options_.endStep)};
    }
    if (number < claimed_) {
      auto& slot = slots_[number % options_.ahead];
      if (!slot.has_value()) awaitSlot(slot);
      Result<Batch> batch = std::move(*slot);
      slot.reset();
      ++taken_;
      wakeReaders();
      return batch;
    }
    ++taken_;
    ++claimed_;
    wakeReaders();
  }
  // Nobody had begun with it: reading it here is quicker than waiting for a thread to.
  return read(number, scratch_);
}

void Loader::awaitSlot(const std::optional<Result<Batch>>& slot) {
  const auto since = std::chrono::steady_clock::now();
  waiting_ = true;
  while (!slot.has_value()) ready_.wait(mutex_);
  waiting_ = false;
  waited_.add(std::chrono::steady_clock::now() - since);
}

void Loader::wakeReaders() {
  // Not before half of the room is free, so that a thread that wakes has several batches to read.
  if (idle_ > 0 && claimed_ - taken_ <= options_.ahead / 2) space_.notify_all();
}

void Loader::prefetch() {
  Indices scratch;
  mutex_.lock();
  while (!stopping_ && claimed_ < end_) {
    if (claimed_ - taken_ >= options_.ahead) {
      ++idle_;
      space_.wait(mutex_);
      --idle_;
      continue;
    }
    const std::int64_t number = claimed_++;
    mutex_.unlock();
    Result<Batch> batch = read(number, scratch);
    mutex_.lock();
    slots_[number % options_.ahead] = std::move(batch);
    if (waiting_ && number == taken_) ready_.notify_one();
  }
  mutex_.unlock();
}

Result<Batch> Loader::read(std::int64_t number, Indices& scratch) {
  const std::int64_t step = options_.firstStep + number / options_.slices.size();
  const int slice = options_.slices.begin + static_cast<int>(number % options_.slices.size());
  Result<Batch> batch = caughtRead([&]() -> Result<Batch> {
    const Position position = order_.position(step);
    epochOrder(position.epoch)->indices(order_.slice(position.batch, slice), scratch);
    Random random(order_.options().seed, step, slice);
    COLLA_TRY_ASSIGN(Batch read, dataset_->read(scratch, random));
    COLLA_TRY(check_.check(scratch, read));
    return read;
  });
  if (batch.ok()) return batch;
  return batch.status().withContext(
      fmt::format("data of {} {}, slice {}", options_.step, step + 1, slice));
}

std::shared_ptr<const EpochOrder> Loader::epochOrder(std::int64_t epoch) {
  const MutexLock lock(epochMutex_);
  for (const auto& known : epochOrders_) {
    if (known->epoch() == epoch) return known;
  }
  // Readers go forward together: two are enough, unless an epoch is shorter than what is read
  // ahead, and then it costs nothing to make one again.
  if (epochOrders_.size() == 2) epochOrders_.erase(epochOrders_.begin());
  return epochOrders_.emplace_back(std::make_shared<const EpochOrder>(order_, epoch));
}

}  // namespace colla::data
