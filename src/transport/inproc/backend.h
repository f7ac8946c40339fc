// Streams between threads: rings on the heap, a doorbell per peer.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <vector>

#include "base/thread_annotations.h"
#include "transport/backend.h"
#include "transport/doorbell.h"
#include "transport/inproc/memory.h"
#include "transport/options.h"

namespace colla::transport::inproc {

// One peer's place, as the others see it.
struct Seat {
  Doorbell bell{};
  std::atomic<bool> gone{false};
  std::atomic<bool> news{false};  // Its poll() has something to take.
};

// What the peers share.
struct Board {
  explicit Board(std::size_t size)
      : seats(std::make_shared<std::vector<Seat>>(size)), taken(size), arrivals(size) {}

  Seat& seat(int peer) { return (*seats)[static_cast<std::size_t>(peer)]; }

  // Streams keep it alive.
  const std::shared_ptr<std::vector<Seat>> seats;
  Mutex mutex;
  std::vector<bool> taken COLLA_GUARDED_BY(mutex);
  std::vector<std::vector<Backend::Arrival>> arrivals COLLA_GUARDED_BY(mutex);
  // What was allocated, by address. Some of it may be gone.
  struct Region {
    std::size_t bytes;
    std::weak_ptr<std::byte> memory;
  };
  std::map<const std::byte*, Region> regions COLLA_GUARDED_BY(mutex);
};

class InprocBackend final : public Backend {
 public:
  InprocBackend(const Options& options, std::shared_ptr<Board> board);
  // This peer is gone from here on.
  ~InprocBackend() override;

  std::string_view name() const override { return "inproc"; }
  SharedMemory* sharedMemory() override { return &memory_; }
  void connect(int peer) override;
  void expect(int /*peer*/) override {}  // Who leaves tells everybody.
  void poll(std::vector<Arrival>& arrivals) override;
  void sleep(std::span<Watch> watches, Deadline until) override;
  void wake() override;

 private:
  // For `peer`, from now on.
  void tell(int peer, Arrival arrival) COLLA_REQUIRES(board_->mutex);

  const Options options_;
  const std::shared_ptr<Board> board_;
  Seat& seat_;
  std::atomic<bool> woken_{false};
  InprocMemory memory_;
};

}  // namespace colla::transport::inproc
