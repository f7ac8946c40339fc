// A Stream that encrypts and authenticates everything: see TlsContext.
//
// Two things that TLS asks of a caller, because it works on whole records:
// - Bytes may wait inside after a read() that filled `out`: read until 0 before polling fd().
// - A write() that took fewer bytes than offered may have sealed the next ones (up to 16 KiB)
//   already: the next write() must begin with the same bytes. Where it does not, it fails and the
//   connection is of no more use; nothing wrong is ever sent.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/unique_fd.h"
#include "transport/net/side.h"
#include "transport/net/socket.h"
#include "transport/net/tls_context.h"
#include "transport/stream.h"

namespace colla::transport::net {

class TlsStream final : public Stream {
 public:
  // `fd` is connected and does not block.
  TlsStream(std::shared_ptr<const TlsContext> context, UniqueFd fd, Side side);
  ~TlsStream() override;
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  // To be called until kDone before anything is read or written. kRefused when the other side
  // does not know the key (see wrongKey()) or does not speak TLS; kPeerLost when it went away.
  Result<Step> handshake();
  // Whether handshake() failed because the keys differ.
  bool wrongKey() const { return wrongKey_; }

  Result<std::size_t> read(std::span<std::byte> out) override;
  Result<std::size_t> write(std::span<const std::byte> data) override;
  bool inFlight() override { return unacknowledged(fd_.get()); }
  int fd() const override { return fd_.get(); }

  // How often the key for writing was replaced.
  std::uint64_t keyUpdates() const { return keyUpdates_; }

 private:
  friend struct SocketBio;
  struct Sealed {
    std::size_t size = 0;  // 0: nothing waits to be sent.
    std::uint32_t crc = 0;
  };

  Status lost(std::string_view doing);
  Status failure(std::string_view doing);
  Status refreshKey();

  std::shared_ptr<const TlsContext> context_;
  UniqueFd fd_;
  SSL* ssl_ = nullptr;
  int errno_ = 0;            // Of the last system call that failed.
  bool ended_ = false;       // The other side closed the connection.
  bool broken_ = false;      // Nothing more can be done with ssl_.
  bool unwritable_ = false;  // It can only be read.
  bool wrongKey_ = false;
  Sealed sealed_;
  std::uint64_t records_ = 0;  // Written with the present key.
  std::uint64_t keyUpdates_ = 0;
};

}  // namespace colla::transport::net
