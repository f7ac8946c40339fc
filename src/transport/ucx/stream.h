// A stream to one peer over UCX, with the bodies of large messages beside it.
//
// Bytes go in packets: active messages, which UCX delivers whether or not anybody reads them here.
// So the sender stays within a window that the receiver's reading moves on.
//
// A TLS connection stands beside it, the lifeline: it brought the two together, and ends with the
// peer's process. A peer that leaves says on it how much it has sent, so that the other side knows
// when it has everything.
//
// UCX may have handed bytes to the network that its socket still loses: a socket that is closed
// with something unread resets the connection. So inFlight() asks the peer what has arrived.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "transport/stream.h"
#include "transport/ucx/lanes.h"
#include "transport/ucx/worker.h"

namespace colla::transport::ucx {

class UcxStream final : public Stream, private Worker::Link {
 public:
  // All that follows: with the worker's mutex, but for what is Stream's.
  explicit UcxStream(std::shared_ptr<Worker> worker);
  ~UcxStream() override;

  // This side's number of the link, which the peer puts into its packets.
  std::uint64_t number() const { return number_; }
  // Makes the endpoints. `first` as for Lanes.
  Status connect(std::uint64_t theirNumber, std::span<const std::byte> address, bool first);
  void sendProof(std::span<const std::byte> proof);
  // The peer's, once it has come.
  const std::vector<std::byte>& proof() const { return proof_; }
  // Why nothing more comes or goes; fine while it does.
  Status problem();
  // Makes it the lifeline.
  void adopt(std::unique_ptr<Stream> lifeline) { lifeline_ = std::move(lifeline); }

  // Whether read() or Bodies::poll() has news, or write() has room.
  bool readable();
  bool writable() const { return room() > 0 || !failure_.ok(); }
  // Of the lifeline; -1 once it has ended.
  int lifelineFd() const;
  void readLifeline();
  // The end is near: look again soon.
  bool ending() const { return endingUntil_.when() != TimePoint::max(); }

  // Stream.
  Result<std::size_t> read(std::span<std::byte> out) override;
  Result<std::size_t> write(std::span<const std::byte> data) override;
  bool inFlight() override;
  Bodies* bodies() override;

 private:
  class LockedLanes;
  struct Packet {
    UcxStream* owner;  // Null: it ended first.
    Header header;
    std::vector<std::byte> bytes;
  };

  void onPacket(const Header& header, std::span<const std::byte> bytes) override;
  bool onBody(const Header& header, void* descriptor, std::size_t size) override;
  void settle() override;
  void onData(std::uint64_t offset, std::span<const std::byte> bytes);
  void send(const Header& header, std::span<const std::byte> bytes);
  void sendCredit();
  static void onSent(void* request, ucs_status_t status, void* packet);
  std::size_t room() const;
  void lookForTheEnd();
  bool takeTheRest();

  const std::shared_ptr<Worker> worker_;
  const std::uint64_t number_;
  std::uint64_t theirNumber_ = 0;
  std::unique_ptr<Endpoint> endpoint_;
  std::unique_ptr<Lanes> lanes_;
  std::unique_ptr<LockedLanes> lockedLanes_;
  std::vector<std::byte> proof_;
  Status failure_;  // Nothing more comes or goes.

  std::vector<std::unique_ptr<Packet>> packets_;  // All, and
  std::vector<Packet*> spare_;                    // those that UCX is through with.
  std::uint64_t sent_ = 0;                        // Bytes of the stream, ever,
  std::uint64_t readByPeer_ = 0;                  // and those that the peer has read.
  std::uint64_t askedAbout_ = 0;                  // With kLast, and
  std::uint64_t arrivedAtPeer_ = 0;               // what the peer has said of it.

  std::deque<std::vector<std::byte>> inbox_;
  std::size_t inboxDone_ = 0;                                 // Bytes of its first.
  std::map<std::uint64_t, std::vector<std::byte>> tooEarly_;  // By the offset.
  std::uint64_t received_ = 0;                                // In order,
  std::uint64_t read_ = 0;                                    // and read here,
  std::uint64_t toldRead_ = 0;                                // as the peer knows.
  std::uint64_t wantedByPeer_ = 0;                            // It asks whether so many are there.

  std::unique_ptr<Stream> lifeline_;
  Status lifelineEnd_;
  std::vector<std::byte> farewell_;  // How much the peer has sent in all.
  Deadline endingUntil_ = Deadline::never();
};

}  // namespace colla::transport::ucx
