// Named operations that are under way: from the call that starts one to the call that waits for it.
//
// A PendingOperation owns what its memory belongs to, so the exchange's thread runs no Python code
// and drops no Python object: the thread that waited for the operation destroys it.
//
// Thread safe. add() and remove() move Python objects, and touch no reference count.
#pragma once

#include <pybind11/pybind11.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/thread_annotations.h"
#include "colla/array.h"
#include "colla/status.h"
#include "python/memory.h"

namespace colla::python {

// One call: a request, or several that go together.
struct PendingOperation {
  std::vector<ArrayMemory> inputs;
  // The arrays for the results, if the caller brought some, and their memory. Otherwise the
  // results are new arrays.
  pybind11::list given;
  std::vector<ArrayMemory> outputs;
  std::vector<Array> made;
  std::vector<std::int64_t> numbers;  // Rows from each member of an alltoall; who joined last.
  std::size_t pending = 0;            // Parts that have not ended.
  TimePoint end;                      // Of the last of them.
  Status status;                      // The first failure.
};

class Operations {
 public:
  using Handle = std::int64_t;

  std::pair<Handle, PendingOperation*> add(PendingOperation operation) COLLA_EXCLUDES(mutex_);
  // One part of it has ended.
  void endPart(PendingOperation* operation, const Status& status,
               std::span<const std::int64_t> numbers = {}) COLLA_EXCLUDES(mutex_);

  // Whether all parts have. Nothing: there is no such operation.
  std::optional<bool> ended(Handle handle) COLLA_EXCLUDES(mutex_);
  // Waits for an operation's end for at most `patience`; as ended().
  std::optional<bool> wait(Handle handle, std::chrono::milliseconds patience)
      COLLA_EXCLUDES(mutex_);
  // When it has ended; nothing if it has not, or there is none.
  std::optional<TimePoint> endOf(Handle handle) COLLA_EXCLUDES(mutex_);
  // Takes it out; null when there is none.
  std::unique_ptr<PendingOperation> remove(Handle handle) COLLA_EXCLUDES(mutex_);

 private:
  bool isPending(Handle handle) const COLLA_REQUIRES(mutex_);

  Mutex mutex_;  // Also guards what changes in a PendingOperation.
  Condition ended_;
  std::unordered_map<Handle, std::unique_ptr<PendingOperation>> operations_
      COLLA_GUARDED_BY(mutex_);
  Handle last_ COLLA_GUARDED_BY(mutex_) = 0;
};

}  // namespace colla::python
