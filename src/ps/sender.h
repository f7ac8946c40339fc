// Sends blocks of gradients behind the worker's back, so that they travel while it computes.
//
// send() and finish() are for one thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "ps/client.h"

namespace colla::ps {

class Client::Sender {
 public:
  explicit Sender(transport::Transport& transport);
  ~Sender();

  // The bytes stay in place until finish().
  void send(int peer, std::uint32_t channel, std::uint32_t sequence, const Ask& ask,
            std::vector<std::span<const std::byte>> partials);
  // Returns once nothing of it is under way any more. Errors are the answers' to tell: a server
  // that did not get something is lost.
  void finish();

 private:
  struct Parcel {
    int peer;
    std::uint32_t channel;
    std::uint32_t sequence;
    Ask ask;
    std::vector<std::span<const std::byte>> partials;
  };
  void run();

  transport::Transport& transport_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Parcel> parcels_;
  bool busy_ = false;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace colla::ps
