// What happened to each named operation, as a trace that chrome://tracing and Perfetto show: how
// long ranks waited for each other (NEGOTIATE_ALLREDUCE, with a mark for each rank that came), and
// how long it was carried out (ALLREDUCE). Every name is a process of the trace.
//
// Thread safe. Costs one load while there is no trace.
#pragma once

#include <atomic>
#include <chrono>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include "base/thread_annotations.h"
#include "colla/status.h"
#include "named/announcement.h"

namespace colla::named {

class Timeline {
 public:
  Timeline() = default;
  ~Timeline() { static_cast<void>(stop()); }
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  Status start(const std::string& path, bool markCycles);
  // Returns when the file is complete.
  Status stop();

  void announced(const Announcement& what, int rank);
  void decided(const Announcement& what);
  // `together`: how many travel as one.
  void began(const Announcement& what, std::size_t together);
  void ended(const Announcement& what);
  void cycle();

 private:
  bool active() const { return active_.load(std::memory_order_acquire); }
  long now() const COLLA_REQUIRES(mutex_);
  int trackOf(const Announcement& what) COLLA_REQUIRES(mutex_);
  void write(const std::string& event) COLLA_REQUIRES(mutex_);

  std::atomic<bool> active_{false};
  Mutex mutex_;
  std::ofstream file_ COLLA_GUARDED_BY(mutex_);
  std::string path_ COLLA_GUARDED_BY(mutex_);
  bool markCycles_ COLLA_GUARDED_BY(mutex_) = false;
  bool empty_ COLLA_GUARDED_BY(mutex_) = true;
  std::chrono::steady_clock::time_point since_ COLLA_GUARDED_BY(mutex_);
  std::map<Key, int> tracks_ COLLA_GUARDED_BY(mutex_);
  std::set<Key> negotiating_ COLLA_GUARDED_BY(mutex_);  // Began in this trace,
  std::set<Key> running_ COLLA_GUARDED_BY(mutex_);      // and not yet ended.
};

}  // namespace colla::named
