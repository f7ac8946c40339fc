#include "colla/array.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

#include "base/check.h"
#include "base/thread_annotations.h"
#include "data/shared_pages.h"

namespace colla {
namespace {

using Memory = std::shared_ptr<std::byte>;

// How many blocks a pool keeps for later: more than a loader has under way.
constexpr std::size_t kKept = 32;

Result<std::size_t> bytesOf(DataType type, const std::vector<std::int64_t>& shape) {
  auto bytes = static_cast<std::int64_t>(sizeOf(type));
  bool counted = true;
  for (const std::int64_t length : shape) {
    counted = counted && length >= 0 && !__builtin_mul_overflow(bytes, length, &bytes);
  }
  if (!counted) {
    return {StatusCode::kInvalidArgument,
            fmt::format("there is no array of shape {}", fmt::join(shape, "x"))};
  }
  return static_cast<std::size_t>(bytes);
}

// Whole lines of 64 bytes, and at least one, so that empty arrays have an address too.
std::size_t capacityFor(std::size_t bytes) {
  return (std::max<std::size_t>(bytes, 1) + Array::kAlignment - 1) / Array::kAlignment *
         Array::kAlignment;
}

// Whole pages of their own, which may be replaced by shared ones with the same bytes
// (data/shared_pages.h). For sizes that malloc always maps as well.
Result<Memory> newPages(std::size_t bytes) {
  const std::size_t size = (bytes + data::kPageBytes - 1) / data::kPageBytes * data::kPageBytes;
  void* pages = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) {
    return {StatusCode::kNoMemory, fmt::format("no memory for an array of {} bytes", bytes)};
  }
  auto* begin = static_cast<std::byte*>(pages);
  return Memory(begin, data::PagesDeleter{{begin, size}});
}

Result<Memory> newMemory(std::size_t capacity) {
  Memory memory(static_cast<std::byte*>(std::aligned_alloc(Array::kAlignment, capacity)),
                [](std::byte* bytes) { std::free(bytes); });
  if (memory == nullptr) {
    return {StatusCode::kNoMemory, fmt::format("no memory for an array of {} bytes", capacity)};
  }
  return memory;
}

}  // namespace

Result<Array> Array::allocate(DataType type, std::vector<std::int64_t> shape) {
  COLLA_TRY_ASSIGN(const std::size_t bytes, bytesOf(type, shape));
  COLLA_TRY_ASSIGN(Memory memory,
                   bytes < data::kLeastShared ? newMemory(capacityFor(bytes)) : newPages(bytes));
  std::byte* data = memory.get();
  return view(std::move(memory), data, type, std::move(shape));
}

Array Array::view(std::shared_ptr<void> owner, std::byte* data, DataType type,
                  std::vector<std::int64_t> shape) {
  COLLA_CHECK(reinterpret_cast<std::uintptr_t>(data) % kAlignment == 0);
  const auto bytes = bytesOf(type, shape);
  COLLA_CHECK(bytes.ok());
  Array array;
  array.owner_ = std::move(owner);
  array.data_ = data;
  array.type_ = type;
  array.shape_ = std::move(shape);
  array.count_ = static_cast<std::int64_t>(*bytes / sizeOf(type));
  return array;
}

void Array::checkType(DataType type) const { COLLA_CHECK(type == type_); }

struct ArrayPool::State {
  struct Block {
    Memory memory;
    std::size_t capacity = 0;
  };

  // A block of at least `capacity`, and not much more; without memory when there is none.
  Block take(std::size_t capacity) COLLA_EXCLUDES(mutex) {
    const MutexLock lock(mutex);
    // From the back: what was used last is still in cache.
    for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
      if (block->capacity < capacity || block->capacity / 2 > capacity) continue;
      Block found = std::move(*block);
      blocks.erase(std::next(block).base());
      return found;
    }
    return {};
  }
  void giveBack(Block block) COLLA_EXCLUDES(mutex) {
    const MutexLock lock(mutex);
    if (blocks.size() == kKept) blocks.erase(blocks.begin());
    blocks.push_back(std::move(block));
  }

  Mutex mutex;
  std::vector<Block> blocks COLLA_GUARDED_BY(mutex);
};

ArrayPool::ArrayPool() : state_(std::make_shared<State>()) {}

Result<Array> ArrayPool::allocate(DataType type, std::vector<std::int64_t> shape) {
  COLLA_TRY_ASSIGN(const std::size_t bytes, bytesOf(type, shape));
  State::Block block = state_->take(capacityFor(bytes));
  if (block.memory == nullptr) {
    block.capacity = capacityFor(bytes);
    COLLA_TRY_ASSIGN(block.memory, newMemory(block.capacity));
  }
  std::byte* data = block.memory.get();
  // The last Array that holds the block brings it back. The pool's state lives as long as its
  // blocks.
  std::shared_ptr<void> owner(data, [state = state_, block = std::move(block)](void*) mutable {
    state->giveBack(std::move(block));
  });
  return Array::view(std::move(owner), data, type, std::move(shape));
}

}  // namespace colla
