// What all TLS connections of a process share: TLS 1.3 with one key that both sides know.
//
// There are no certificates: who does not know the key can neither connect nor be connected to.
// Every connection has fresh keys (an ephemeral X25519 exchange on top of the shared one), so
// recorded bytes are worthless later. No tickets, no early data (it could be replayed).
//
// AES-128-GCM: 3.2 GB/s per core where it was measured, ChaCha20-Poly1305 2.1.
//
// Immutable after create(); share between threads and connections.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "colla/status.h"
#include "transport/net/keys.h"

typedef struct ssl_ctx_st SSL_CTX;
typedef struct ssl_st SSL;
typedef struct ssl_session_st SSL_SESSION;

namespace colla::transport::net {

class TlsContext {
 public:
  // After so many records a key has protected as much as is prudent (RFC 8446, 5.5: 2^24.5 for
  // AES-GCM) and the writer moves on to the next: every 128 GiB of full records.
  static constexpr std::uint64_t kRecordsPerKey = std::uint64_t{1} << 23;

  // The key is derived from the job's secret (not empty) and its id.
  static Result<std::shared_ptr<const TlsContext>> create(
      std::string_view secret, std::string_view jobId,
      std::uint64_t recordsPerKey = kRecordsPerKey);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  SSL_CTX* get() const { return context_; }
  std::uint64_t recordsPerKey() const { return recordsPerKey_; }

 private:
  TlsContext(const Key& key, std::uint64_t recordsPerKey)
      : key_(key), recordsPerKey_(recordsPerKey) {}
  static const TlsContext& of(SSL* ssl);
  SSL_SESSION* makeSession(SSL* ssl) const;

  Key key_;
  const std::uint64_t recordsPerKey_;
  SSL_CTX* context_ = nullptr;
};

// The reason of this thread's last OpenSSL error, and forgets it.
std::string takeTlsError();

}  // namespace colla::transport::net
