// One process's end of UCX: the context, its only worker, and the packets that arrive there.
//
// A packet is an active message with a Header. It names the link that it is for by a random number
// that only the two ends know; packets of others are dropped.
//
// Thread safety: mutex() guards the worker and all links; whoever calls holds it. Callbacks of UCX
// come inside of progress() and so do those of Link.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/thread_annotations.h"
#include "colla/status.h"
#include "transport/ucx/library.h"

namespace colla::transport::ucx {

enum class PacketKind : std::uint32_t {
  kProof = 1,       // Bytes: that its sender knows the secret (newcomer.h).
  kData = 2,        // Bytes of the stream, from `first` on. `second` as in kCredit.
  kCredit = 3,      // `first` bytes of the stream have arrived and `second` have been read, ever.
  kLaneClosed = 4,  // `first`: 1 for one by which the sender of this packet sends, otherwise 0.
  kBody = 5,        // The body `first`, which the receiver fetches.
  kLast = 6,        // `first` bytes of the stream were sent: asks for a kCredit once all are there.
};

// The one active message there is.
inline constexpr unsigned kMessageId = 1;

struct Header {
  std::uint64_t link;
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  PacketKind kind;
  std::uint32_t lane = 0;
};
static_assert(sizeof(Header) == 32);

class Worker {
 public:
  // What takes the packets of one peer.
  class Link {
   public:
    virtual ~Link() = default;
    virtual void onPacket(const Header& header, std::span<const std::byte> bytes) = 0;
    // Whether it keeps the descriptor, by which the body can be received.
    virtual bool onBody(const Header& header, void* descriptor, std::size_t size) = 0;
    // In the next progress() after needsSettling(): does what UCX does not allow in a callback.
    virtual void settle() = 0;
  };

  // `devices` are UCX's net devices to use unless the user has said so; empty: all. `wake` ends the
  // sleep of the thread that waits for fd().
  static Result<std::shared_ptr<Worker>> create(const std::string& devices,
                                                std::function<void()> wake);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  Mutex& mutex() COLLA_THREAD_ATTRIBUTE(lock_returned(mutex_)) { return mutex_; }
  // For what runs under the mutex but can't say so to clang: UCX's callbacks, and Bodies.
  void assumeLocked() const COLLA_THREAD_ATTRIBUTE(assert_capability(mutex_)) {}
  const Library& library() const { return *library_; }
  ucp_worker_h get() const { return worker_; }
  // How others reach this worker.
  const std::vector<std::byte>& address() const { return address_; }

  std::uint64_t add(Link& link) COLLA_REQUIRES(mutex_);
  void remove(std::uint64_t number) COLLA_REQUIRES(mutex_) { links_.erase(number); }
  void needsSettling(std::uint64_t number) COLLA_REQUIRES(mutex_) { unsettled_.push_back(number); }

  // Memory that UCX may still call back with, after its owner has gone.
  void keep(std::shared_ptr<const void> memory) COLLA_REQUIRES(mutex_) {
    kept_.push_back(std::move(memory));
  }

  // What was started on the worker may still be on its way to the network.
  bool inFlight() COLLA_REQUIRES(mutex_);

  // Moves what can move; whether anything did.
  bool progress() COLLA_REQUIRES(mutex_);
  // Until `done` or the limit; whether done.
  bool progressUntil(const std::function<bool()>& done, std::chrono::nanoseconds limit)
      COLLA_REQUIRES(mutex_);
  // fd() is readable from now on once there is something to do; false: there is already.
  bool arm();
  int fd() const { return fd_; }
  // Between arm() and the end of the sleep: then what another thread starts, or finds, wakes the
  // sleeper.
  void setAsleep(bool asleep) COLLA_REQUIRES(mutex_) { asleep_ = asleep; }
  void started() COLLA_REQUIRES(mutex_) {
    flushed_ = false;
    wakeSleeper();
  }

  Status failure(std::string_view what, ucs_status_t status) const;

 private:
  Worker(const Library& library, std::function<void()> wake)
      : library_(&library), wake_(std::move(wake)) {}
  Status start(const std::string& devices);
  void wakeSleeper() const COLLA_REQUIRES(mutex_) {
    if (asleep_) wake_();
  }
  // In progress(), which holds the mutex.
  static ucs_status_t onMessage(void* self, const void* header, std::size_t headerSize, void* data,
                                std::size_t size, const ucp_am_recv_param_t* param)
      COLLA_THREAD_ATTRIBUTE(no_thread_safety_analysis);

  const Library* const library_;
  const std::function<void()> wake_;
  Mutex mutex_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int fd_ = -1;
  bool asleep_ COLLA_GUARDED_BY(mutex_) = false;
  void* flush_ COLLA_GUARDED_BY(mutex_) = nullptr;  // Under way.
  bool flushed_ COLLA_GUARDED_BY(mutex_) = true;    // Nothing was started since it was begun.
  std::vector<std::byte> address_;
  std::map<std::uint64_t, Link*> links_ COLLA_GUARDED_BY(mutex_);
  std::vector<std::uint64_t> unsettled_ COLLA_GUARDED_BY(mutex_);
  std::vector<std::uint64_t> settling_ COLLA_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<const void>> kept_ COLLA_GUARDED_BY(mutex_);
};

// One end of a connection with a peer's worker. The n-th that two workers make to each other are
// the two ends of the same one.
class Endpoint {
 public:
  static Result<std::unique_ptr<Endpoint>> create(Worker& worker,
                                                  std::span<const std::byte> address);
  ~Endpoint() { close(); }
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  bool open() const { return endpoint_ != nullptr; }
  ucp_ep_h get() const { return endpoint_; }
  // What UCX found wrong with it; UCS_OK: nothing.
  ucs_status_t error() const { return error_; }
  // All that is under way on it ends at once, and the peer may lose what it has not received yet.
  // Not in a callback of UCX. (UCX can also wait until the peer has closed its end, for ever if
  // that does not move.)
  void close();

 private:
  explicit Endpoint(Worker& worker) : worker_(worker) {}

  Worker& worker_;
  ucp_ep_h endpoint_ = nullptr;
  ucs_status_t error_ = UCS_OK;
};

}  // namespace colla::transport::ucx
