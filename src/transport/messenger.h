// Messages over a backend's streams: the Transport that every backend is made of.
//
// Whoever waits makes progress. Of several threads that wait at once one leads: it sleeps in the
// backend and moves bytes for all; the others sleep until their requests are done or the lead is
// free. Who posts a request while another thread leads moves what it can at once, and wakes the
// leader only when that left something to watch.
//
// Thread safety: as Transport says. Nobody may be in a call when it is destroyed.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/thread_annotations.h"
#include "transport/backend.h"
#include "transport/options.h"
#include "transport/peer_link.h"
#include "transport/transport.h"

namespace colla::transport {

class Messenger final : public Transport {
 public:
  Messenger(const Options& options, std::unique_ptr<Backend> backend);
  // Gives what is left to send (aborts, say) a moment to leave; pending requests are cancelled.
  ~Messenger() override;

  std::string_view name() const override { return backend_->name(); }
  int self() const override { return self_; }
  int size() const override { return static_cast<int>(names_.size()); }
  SharedMemory* sharedMemory() override { return backend_->sharedMemory(); }

  void send(int peer, const Envelope& envelope, std::span<const std::byte> data,
            Request& request) override;
  void recv(int peer, const Envelope& envelope, std::span<std::byte> data,
            Request& request) override;
  Status wait(std::span<Request* const> requests, Deadline deadline) override;
  bool waitAny(std::span<Request* const> requests, Deadline deadline) override;
  void abort(std::uint32_t group, const Status& why, std::span<const int> peers) override;
  Status aborted(std::uint32_t group) override;
  Status abortedBy(int peer, std::uint32_t group) override;

 private:
  enum class Direction { kSend, kReceive };
  class Turn;  // The lock, asked for in a way that the leader notices.

  void post(Direction direction, int peer, const Envelope& envelope, std::byte* data,
            std::size_t size, Request& request);

  // Moves bytes, or lets another thread, until `enough(requests)` or the deadline.
  using Enough = bool (*)(std::span<Request* const> requests);
  // Returns the peer whose request was the last to be waited for, or kNoPeer.
  int progress(std::span<Request* const> requests, Enough enough, Deadline deadline)
      COLLA_REQUIRES(mutex_);
  PeerLink& link(int peer) COLLA_REQUIRES(mutex_);
  PeerLink& addLink(int peer) COLLA_REQUIRES(mutex_);
  void pump(PeerLink& link) COLLA_REQUIRES(mutex_);
  void pumpAll() COLLA_REQUIRES(mutex_);
  void setMoving(PeerLink& link) COLLA_REQUIRES(mutex_);
  void takeArrivals() COLLA_REQUIRES(mutex_);
  void takeAborts() COLLA_REQUIRES(mutex_);
  void lead(Deadline until) COLLA_REQUIRES(mutex_);
  void sleep(Deadline until) COLLA_REQUIRES(mutex_);
  void wakeOthers(bool finished) COLLA_REQUIRES(mutex_);
  Status timeout(std::span<Request* const> requests, TimePoint since) const;

  const int self_;
  const std::vector<std::string> names_;
  const std::vector<std::string> hosts_;
  const std::unique_ptr<Backend> backend_;

  Mutex mutex_;
  Condition changed_;  // A request is done, or the lead is free.
  LinkContext context_ COLLA_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<PeerLink>> links_ COLLA_GUARDED_BY(mutex_);  // By peer; null: none.
  std::vector<PeerLink*> used_ COLLA_GUARDED_BY(mutex_);                   // Those that are there.

  bool leading_ COLLA_GUARDED_BY(mutex_) = false;
  bool sleeping_ COLLA_GUARDED_BY(mutex_) = false;   // The leader, in the backend.
  bool unwatched_ COLLA_GUARDED_BY(mutex_) = false;  // There is more to watch than it knows of.
  int followers_ COLLA_GUARDED_BY(mutex_) = 0;
  std::atomic<int> posting_ = 0;  // Threads that want the lock while the leader has it.

  std::vector<PeerLink*> moving_ COLLA_GUARDED_BY(mutex_);  // May move more bytes at once.
  std::vector<PeerLink*> pumping_ COLLA_GUARDED_BY(mutex_);
  std::vector<Backend::Arrival> arrivals_ COLLA_GUARDED_BY(mutex_);
  // The leader's own.
  int roundsAwake_ = 0;
  std::vector<Backend::Watch> watches_;
  std::vector<PeerLink*> watched_;
};

}  // namespace colla::transport
