// The exchange of one job in this process, for all who start operations in it: Python's end
// (named.cc) and a library of kernels (operations_table.h).
//
// Thread safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/thread_annotations.h"
#include "colla/job.h"
#include "colla/status.h"
#include "named/exchange.h"

namespace colla::python {

class OpenExchange {
 public:
  static Result<std::shared_ptr<OpenExchange>> create(std::shared_ptr<Job> job,
                                                      const named::Options& options);
  ~OpenExchange() { close(); }

  // Ends what is pending; later calls are refused. It waits for the exchange's thread, so the
  // caller holds no lock that a callback may need.
  void close();

  // kCancelled after close().
  Result<std::shared_ptr<named::NamedExchange>> get() const;
  const Job& job() const { return *job_; }

  // The names of an operation's parts: the kind's word, then `name`. An empty one stands for the
  // next number: ranks start such operations of a kind and a set in the same order.
  std::vector<std::string> namesOf(named::Kind kind, const std::string& name, int set,
                                   std::size_t parts);
  // named::NamedExchange::join(). Ranks that came together in it may have started different numbers
  // of operations without names: they count from 0 again, under different names.
  Status join(std::function<void(const Status& status, int lastRank)> done);

 private:
  explicit OpenExchange(std::shared_ptr<Job> job) : job_(std::move(job)) {}

  const std::shared_ptr<Job> job_;  // Outlives the exchange.
  mutable Mutex mutex_;
  std::shared_ptr<named::NamedExchange> exchange_ COLLA_GUARDED_BY(mutex_);
  int joins_ COLLA_GUARDED_BY(mutex_) = 0;
  std::map<std::pair<named::Kind, int>, std::int64_t> counts_ COLLA_GUARDED_BY(mutex_);
};

}  // namespace colla::python
