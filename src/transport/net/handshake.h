// The first words on a connection: both sides prove that they know the job's secret, then compare
// who they are, before a single byte of anything else is read.
//
// How they prove it depends on the connection:
//   TLS               the TLS handshake itself
//   plain, a secret   HMAC-SHA256 over both greetings, each with a fresh nonce: recorded bytes are
//                     worthless later. What follows is neither encrypted nor authenticated.
//   Unix socket       the kernel: the other process has our user id. And the HMAC, with a secret
//   none of these     nothing: a Listener does not listen so
// Then each side compares the greetings and tells the other its verdict, so that both know why a
// mixed job was refused.
//
// A record is its type (1 byte), its length (4 bytes) and that many bytes, with a limit per type:
//   connector                     acceptor
//   opening: nonce, Hello  ---->
//                          <----  opening: nonce, Hello
//   proof (HMAC)           ---->                            only plain with a secret
//                          <----  proof (HMAC), verdict
//   verdict                ---->
// The acceptor stays silent until it has been greeted properly. Instead of any record a side may
// say no with a verdict and close.
//
// A Handshake never blocks: a poll loop drives it with step(). Not thread safe.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/unique_fd.h"
#include "colla/status.h"
#include "transport/net/address.h"
#include "transport/net/hello.h"
#include "transport/net/keys.h"
#include "transport/net/side.h"
#include "transport/net/tls_stream.h"
#include "transport/stream.h"

namespace colla::transport::net {

struct HandshakeOptions {
  Hello hello;                            // What this side says of itself.
  std::string secret;                     // The job's; empty: none.
  std::shared_ptr<const TlsContext> tls;  // Null: no encryption.
  // What else the other side must fulfil, once it is proved and compared. What it says no with is
  // told to the other side.
  std::function<Status(const Hello& theirs)> check;
  std::chrono::milliseconds timeout{10'000};
};

class Handshake {
 public:
  // Why it failed, for those who count or log.
  enum class Failure { kNone, kLost, kTimeout, kNotColla, kWrongSecret, kForeignUser, kMixed };

  // Goes on with a connection that was accepted.
  static Handshake accept(UniqueFd fd, const HandshakeOptions& options);
  // Starts to connect. kPeerLost when nobody listens there.
  static Result<Handshake> connect(const std::string& address, const HandshakeOptions& options);

  Handshake(Handshake&&) = default;
  Handshake& operator=(Handshake&&) = default;

  // Goes on as far as it can. After an error, drop it.
  Result<Step> step();

  int fd() const;
  Deadline deadline() const { return deadline_; }
  Failure failure() const { return failure_; }

  // Only after kDone, or once the greetings were found not to fit (kMixed).
  const Hello& theirs() const { return theirs_; }
  std::unique_ptr<Stream> takeStream() { return std::move(stream_); }

 private:
  enum class State { kConnecting, kTls, kOpening, kProof, kVerdict, kRefusing, kDone };
  enum class Record : std::uint8_t { kOpening = 1, kProof = 2, kVerdict = 3 };

  Handshake(Side side, const HandshakeOptions& options);
  Result<Step> advance();
  Result<Step> refusalStep();
  Status start();
  Status begin();
  Status onRecord();
  Status onOpening();
  Status onProof();
  Status judge();
  Result<bool> receive();
  Result<bool> flush();
  void send(Record type, std::span<const std::byte> payload);
  void sendVerdict(std::string_view refusal);
  Status fail(Failure failure, Status status);
  void refuse(Failure failure, Status status, std::string_view told);
  Key proofOf(Side side) const;
  bool needsProof() const { return !options_.secret.empty() && options_.tls == nullptr; }

  Side side_;
  HandshakeOptions options_;
  Deadline deadline_;
  State state_ = State::kOpening;
  Failure failure_ = Failure::kNone;
  std::optional<Address> destination_;
  UniqueFd socket_;           // Until stream_ takes it.
  TlsStream* tls_ = nullptr;  // stream_, while its own handshake is under way.
  std::unique_ptr<Stream> stream_;
  std::vector<std::byte> mine_;  // The openings, as they were on the wire.
  std::vector<std::byte> opening_;
  Hello theirs_;
  Status refusal_;     // Ours, while it is being told.
  bool told_ = false;  // It is on its way.

  std::vector<std::byte> out_;
  std::size_t outDone_ = 0;
  std::vector<std::byte> in_;  // The record that is being received, with its header.
  std::size_t inDone_ = 0;
};

struct Connection {
  std::unique_ptr<Stream> stream;
  Hello hello;  // The other side's.
};

// Connects and shakes hands on this thread. Does not try again.
Result<Connection> connectNow(const std::string& address, const HandshakeOptions& options,
                              Deadline deadline);

}  // namespace colla::transport::net
