// Saves checkpoints in the background while training goes on.
//
// start() copies the tensors and returns; a thread writes the copy. There is one copy at a time: a
// start() before the last one is written waits for it. The memory is kept for the next one.
//
// One thread calls start() and finish(); `afterSave` is called on the saver's own thread, under no
// lock, and must not call back into the saver. Destruction waits until what was started is
// written; call finish() before to learn how that ended.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/metric_families.h"
#include "base/metrics.h"
#include "base/thread_annotations.h"
#include "checkpoint/directory.h"
#include "checkpoint/manifest.h"
#include "colla/status.h"

namespace colla::checkpoint {

struct SaverOptions {
  // Keep that many of the newest checkpoints; 0 for all.
  int keep = 0;
  // Called after each that is on the disk, with the seconds that it took to write. What it throws
  // is the save's error.
  std::function<void(const Saved& saved, double seconds)> afterSave;
};

class Saver {
 public:
  explicit Saver(Directory directory, SaverOptions options = {});
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  // When it returns, the caller may change the tensors. If the save before this one failed, returns
  // that error and starts nothing; the next call starts afresh.
  //
  // `more` gives what else belongs to the checkpoint. It is called on the saver's thread, and what
  // it points to stays until it is destroyed.
  using More = std::function<Result<Contents>()>;
  // `best`: the checkpoint is the best one from then on (Directory::markBest).
  Status start(const Manifest& manifest, const Contents& contents, More more = nullptr,
               bool best = false);
  // The same for one that was started before, once it is written.
  Status markBest(std::int64_t step);
  // One is being written.
  bool busy();

  // Waits until everything is written. An error that start() has not returned, if there was one.
  Status finish();

 private:
  // Tensors in memory of our own.
  struct Snapshot {
    Manifest manifest;
    std::vector<TensorView> parameters;
    std::vector<TensorView> buffers;
    std::vector<TensorView> optimizer;
  };
  struct Free {
    void operator()(std::byte* memory) const;
  };

  Status copy(const Manifest& manifest, const Contents& contents);
  void run();
  Status write();
  Status report(const Saved& saved, double seconds) const;

  // Of the thread, once it runs.
  Directory directory_;
  metrics::Histogram seconds_{metrics::family("colla_save_seconds")};
  metrics::Counter bytes_{metrics::family("colla_saved_bytes_total")};
  const SaverOptions options_;
  // Of the caller while !busy_, of the thread while busy_.
  Snapshot snapshot_;
  More more_;
  bool best_ = false;
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t capacity_ = 0;

  Mutex mutex_;
  Condition changed_;
  bool busy_ COLLA_GUARDED_BY(mutex_) = false;
  bool stopping_ COLLA_GUARDED_BY(mutex_) = false;
  Status error_ COLLA_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace colla::checkpoint
