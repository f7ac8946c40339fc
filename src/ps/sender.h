// Sends blocks of gradients on a thread of its own, so that they travel while the worker computes.
//
// One thread calls send() and finish().
#pragma once

#include <condition_variable>
#include <deque>
#include <span>
#include <thread>
#include <vector>

#include "base/thread_annotations.h"
#include "ps/client.h"

namespace colla::ps {

class Client::Sender {
 public:
  explicit Sender(transport::Transport& transport);
  ~Sender();

  // The caller keeps the bytes in place until finish() returns.
  void send(int peer, std::uint32_t channel, std::uint32_t sequence, const Ask& ask,
            std::vector<std::span<const std::byte>> partials);
  // Returns once nothing is under way any more. It reports no errors: a server that did not get
  // something is lost, and the worker learns so where it waits for that server's answer.
  void finish();

 private:
  struct Parcel {
    int peer;
    std::uint32_t channel;
    std::uint32_t sequence;
    std::vector<std::byte> ask;
    std::vector<std::span<const std::byte>> partials;
  };
  void run();

  transport::Transport& transport_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Parcel> parcels_ COLLA_GUARDED_BY(mutex_);
  bool busy_ COLLA_GUARDED_BY(mutex_) = false;  // The thread is sending one of them.
  bool closing_ COLLA_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace colla::ps
