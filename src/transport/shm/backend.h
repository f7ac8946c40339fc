// Processes of one host: rings and regions in shared memory, Unix sockets to pass them.
//
// Every process has a bell in a segment of its own, rung by whoever changed something that it may
// wait for. A pair of processes is linked on first use: the higher-numbered connects to the
// other's Unix socket, both prove who they are, and exchange their bells and a pair of rings.
// From then on the socket carries only regions, and tells by closing that the peer is gone.
//
// Thread safety: as Backend and SharedMemory say.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/thread_annotations.h"
#include "transport/backend.h"
#include "transport/doorbell.h"
#include "transport/net/handshake.h"
#include "transport/net/knock.h"
#include "transport/net/listener.h"
#include "transport/options.h"
#include "transport/shared_memory.h"
#include "transport/shm/control.h"
#include "transport/shm/segment.h"
#include "transport/transport.h"

namespace colla::transport::shm {

class ShmBackend final : public Backend, public SharedMemory {
 public:
  static Result<std::unique_ptr<ShmBackend>> create(const Options& options,
                                                    std::unique_ptr<net::Listener> listener);
  ~ShmBackend() override;

  std::string_view name() const override { return "shm"; }
  SharedMemory* sharedMemory() override { return this; }
  void connect(int peer) override;
  void expect(int peer) override;
  void poll(std::vector<Arrival>& arrivals) override;
  void sleep(std::span<Watch> watches, Deadline until) override;
  void wake() override;

  Result<Mapping> allocate(std::size_t bytes) override;
  Place find(std::span<const std::byte> data) const override;
  Result<Mapping> map(int peer, Place place, std::size_t bytes, Deadline deadline) override;
  void notify(std::span<const int> peers) override;
  using SharedMemory::wait;
  Status wait(std::span<const int> peers, Ready ready, const void* context, Deadline deadline,
              std::chrono::nanoseconds& waited) override;

 private:
  // What this process shares with one peer. Kept alive by the streams that use its memory.
  struct Link {
    int peer = -1;
    bool connector = false;                   // This side has connected.
    std::optional<net::Handshake> handshake;  // While it is under way, on the connector's side.
    std::unique_ptr<Stream> socket;
    bool greeted = false;  // This side has sent its greeting.
    bool up = false;       // Both have.
    std::atomic<bool> gone{false};
    Segment bell;                                                     // The peer's.
    Segment rings;                                                    // The connector's memory.
    std::map<std::uint32_t, std::shared_ptr<const Segment>> regions;  // The peer's, by number.
    std::map<std::uint32_t, Status> refused;  // Those that could not be attached, and why.
    std::uint32_t newest = 0;                 // They come in the order of their numbers.
    // Regions that the peer has to be told of, while its socket is full.
    std::deque<Control> outbox;
  };
  struct Region {
    std::uint32_t number;
    std::shared_ptr<const Segment> segment;
  };
  // How a region that nobody uses any more finds the backend, if it is still there.
  struct Owner {
    Mutex mutex;
    ShmBackend* backend COLLA_GUARDED_BY(mutex);
  };

  ShmBackend(const Options& options, std::unique_ptr<net::Listener> listener, Segment bell);
  Doorbell& ownBell() const { return *reinterpret_cast<Doorbell*>(bell_.bytes().data()); }

  void pollLocked(std::vector<Arrival>& arrivals) COLLA_REQUIRES(mutex_);
  void advance(Link& link, std::vector<Arrival>& arrivals) COLLA_REQUIRES(mutex_);
  Status advanceOrFail(Link& link, std::vector<Arrival>& arrivals) COLLA_REQUIRES(mutex_);
  Status greet(Link& link) COLLA_REQUIRES(mutex_);
  Status onGreeting(Link& link, ReceivedControl received, std::vector<Arrival>& arrivals)
      COLLA_REQUIRES(mutex_);
  // Takes what the peer has sent and sends what it has not been told; notices that it is gone.
  void service(Link& link) COLLA_REQUIRES(mutex_);
  void flush(Link& link) COLLA_REQUIRES(mutex_);
  void tell(Link& link, const Control& control) COLLA_REQUIRES(mutex_);
  // Peers can no longer map the region that begins there.
  void release(const std::byte* region);
  Status lost(int peer) const;

  const Options options_;
  const Segment bell_;                                     // This process's.
  const std::unique_ptr<std::atomic<Doorbell*>[]> bells_;  // By peer; null: not linked.
  std::atomic<std::uint64_t> wakes_{0};
  std::uint64_t wakesSeen_ = 0;                  // By the one thread that sleeps.
  std::atomic<std::chrono::nanoseconds> slice_;  // Of sleeping, until the sockets are looked at.

  mutable Mutex mutex_;
  const std::unique_ptr<net::Listener> listener_ COLLA_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Link>> links_ COLLA_GUARDED_BY(mutex_);  // By peer; null: none.
  // At peers that are to connect.
  std::vector<std::pair<int, net::Knock>> knocks_ COLLA_GUARDED_BY(mutex_);
  TimePoint lastPoll_ COLLA_GUARDED_BY(mutex_);
  std::uint32_t nextRegion_ COLLA_GUARDED_BY(mutex_) = 1;
  std::map<const std::byte*, Region> regions_ COLLA_GUARDED_BY(mutex_);  // Own, by address.
  const std::shared_ptr<Owner> owner_ = std::make_shared<Owner>();
};

}  // namespace colla::transport::shm
