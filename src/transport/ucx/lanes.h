// The bodies of large messages between two peers: UCX fetches or writes them from memory to memory.
//
// UCX can take back an operation that is under way in one way only: by closing the endpoint it is
// on. So bodies have endpoints of their own, the lanes: some for each direction, and one body at a
// time on each. A body that is withdrawn in the middle costs its lane, on both sides, and nothing
// else; with the last lane of a direction gone, messages go through the stream in parts.
//
// Not thread safe: the worker's mutex guards it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "colla/status.h"
#include "transport/bodies.h"
#include "transport/ucx/worker.h"

namespace colla::transport::ucx {

class Lanes final : public Bodies {
 public:
  // Sends a packet to the peer by the stream's endpoint.
  using Tell = std::function<void(const Header& header)>;

  // `link` is the peer's number of it, `own` this side's. `first` says whose lanes are made first:
  // the two sides differ in it.
  static Result<std::unique_ptr<Lanes>> create(Worker& worker, std::span<const std::byte> address,
                                               std::uint64_t link, std::uint64_t own, bool first,
                                               Tell tell);

  bool able() const override;
  bool room() const override { return freeLane() != nullptr; }
  std::uint64_t send(std::span<const std::byte> body) override;
  void receive(std::uint64_t number, std::span<std::byte> into) override;
  void refuse(std::uint64_t number) override;
  void withdraw(Id id) override;
  void poll(std::vector<Id>& ended) override;
  bool hasEnded() const { return !ended_.empty(); }

  // From the worker's Link.
  bool onBody(const Header& header, void* descriptor, std::size_t size);
  void onLaneClosed(const Header& header);
  void settle();
  // What is wrong with them; kPeerLost where UCX says so, which may be that the peer closed its
  // end.
  Status failure() const;
  // Of bodies that were all withdrawn.
  void closeAll();
  // A body that is wanted may still come.
  bool receiving() const;

 private:
  static constexpr std::uint32_t kLanes = 4;  // Of each direction.
  struct Lane {
    std::unique_ptr<Endpoint> endpoint;
    bool busy = false;
  };
  struct Sent {
    Lanes* lanes;
    Header header;
    bool done = false;  // UCX is through with its bytes.
  };
  struct Received {
    Lanes* lanes;
    std::uint64_t number;
    std::span<std::byte> into;
    void* descriptor = nullptr;  // Once it has arrived, until it is fetched.
    std::size_t size = 0;
    std::uint32_t lane = 0;
    bool wanted = false;
    bool refused = false;
    bool begun = false;
    bool done = false;
  };
  enum class Direction : std::uint64_t { kIn = 0, kOut = 1 };

  Lanes(Worker& worker, std::uint64_t link, std::uint64_t own, Tell tell)
      : worker_(worker), link_(link), own_(own), tell_(std::move(tell)) {}
  const Lane* freeLane() const;
  void fetch(Received& body);
  void failed(const Lane& lane, ucs_status_t status);
  void closeLane(Direction direction, std::uint32_t lane);
  void releaseArrived(std::uint32_t lane);
  void tellClosed(Direction direction, std::uint32_t lane);
  static void onSent(void* request, ucs_status_t status, void* sent);
  static void onReceived(void* request, ucs_status_t status, std::size_t size, void* received);

  Worker& worker_;
  const std::uint64_t link_;
  const std::uint64_t own_;
  const Tell tell_;
  std::array<Lane, kLanes> out_;
  std::array<Lane, kLanes> in_;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, Sent> sent_;
  std::map<std::uint64_t, Received> received_;
  std::vector<std::pair<Direction, std::uint32_t>> closing_;  // The peer has closed its end.
  std::vector<Id> ended_;
  Status wrong_;  // What the peer did that it must not, or UCX could not.
};

}  // namespace colla::transport::ucx
