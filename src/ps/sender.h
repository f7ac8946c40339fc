// Sends blocks of gradients on a thread of its own, so that they travel while the worker computes.
//
// One thread calls send() and finish().
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
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

  // What follows an ask: messages, and the memory of those that nobody else keeps in place.
  struct Payload {
    std::vector<std::span<const std::byte>> parts;
    std::vector<std::byte> own = {};
  };
  // Runs on the sender's thread before the ask is sent, and may change it.
  using Pack = std::function<Result<Payload>(Ask& ask)>;

  void send(Channel& server, const Ask& ask, Pack pack);
  // Returns once nothing is under way any more: the first error of a Pack, after which nothing
  // further is sent. It reports no lost servers: the worker learns of them where it waits for their
  // answers.
  Status finish();

 private:
  struct Parcel {
    int peer;
    std::uint32_t channel;
    std::uint32_t sequence;
    Ask ask;
    Pack pack;
  };
  void run();
  Status send(Parcel parcel);

  transport::Transport& transport_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Parcel> parcels_ COLLA_GUARDED_BY(mutex_);
  bool busy_ COLLA_GUARDED_BY(mutex_) = false;  // The thread is sending one of them.
  Status failure_ COLLA_GUARDED_BY(mutex_);
  bool closing_ COLLA_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace colla::ps
