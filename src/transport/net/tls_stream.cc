#include "transport/net/tls_stream.h"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/crc32c.h"

namespace colla::transport::net {

// OpenSSL's own socket BIO raises SIGPIPE when the other side is gone; this one does not, and
// keeps the reason.
struct SocketBio {
  static TlsStream& stream(BIO* bio) { return *static_cast<TlsStream*>(BIO_get_data(bio)); }

  static int finish(BIO* bio, ssize_t count, int retryFlag) {
    BIO_clear_retry_flags(bio);
    if (count >= 0) return static_cast<int>(count);
    if (errno == EAGAIN || errno == EINTR) {
      BIO_set_flags(bio, retryFlag | BIO_FLAGS_SHOULD_RETRY);
    } else {
      stream(bio).errno_ = errno;
    }
    return -1;
  }
  static int read(BIO* bio, char* data, int size) {
    const ssize_t count = recv(stream(bio).fd(), data, static_cast<std::size_t>(size), 0);
    if (count == 0) stream(bio).ended_ = true;
    return finish(bio, count, BIO_FLAGS_READ);
  }
  static int write(BIO* bio, const char* data, int size) {
    return finish(bio, send(stream(bio).fd(), data, static_cast<std::size_t>(size), MSG_NOSIGNAL),
                  BIO_FLAGS_WRITE);
  }
  static long control(BIO* bio, int command, long, void*) {
    if (command == BIO_CTRL_EOF) return stream(bio).ended_ ? 1 : 0;
    return command == BIO_CTRL_FLUSH ? 1 : 0;
  }
  static BIO_METHOD* method() {
    static BIO_METHOD* const made = [] {
      BIO_METHOD* m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "colla socket");
      COLLA_CHECK(m != nullptr && BIO_meth_set_read(m, read) == 1 &&
                  BIO_meth_set_write(m, write) == 1 && BIO_meth_set_ctrl(m, control) == 1);
      return m;
    }();
    return made;
  }
};

TlsStream::TlsStream(std::shared_ptr<const TlsContext> context, UniqueFd fd, Side side)
    : context_(std::move(context)), fd_(std::move(fd)), ssl_(SSL_new(context_->get())) {
  BIO* bio = BIO_new(SocketBio::method());
  COLLA_CHECK(ssl_ != nullptr && bio != nullptr);
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_, bio, bio);
  if (side == Side::kConnector) {
    SSL_set_connect_state(ssl_);
  } else {
    SSL_set_verify(ssl_, SSL_VERIFY_NONE, nullptr);  // Clients are never asked for certificates.
    SSL_set_accept_state(ssl_);
  }
}

TlsStream::~TlsStream() { SSL_free(ssl_); }

Result<Step> TlsStream::handshake() {
  ERR_clear_error();
  const int outcome = SSL_do_handshake(ssl_);
  if (outcome == 1) {
    // The key itself was used, not some certificate in its place.
    if (SSL_session_reused(ssl_) == 1) return Step::kDone;
    broken_ = true;
    return {StatusCode::kRefused, "the other side did not use the job's key"};
  }
  switch (SSL_get_error(ssl_, outcome)) {
    case SSL_ERROR_WANT_READ:
      return Step::kWantRead;
    case SSL_ERROR_WANT_WRITE:
      return Step::kWantWrite;
    default:
      break;
  }
  broken_ = true;
  if (errno_ != 0 ||
      (ended_ && ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING)) {
    return lost("before its TLS handshake was complete");
  }
  const int reason = ERR_GET_REASON(ERR_peek_last_error());
  // An alert in answer to our first words is how the other side says no to our key.
  wrongKey_ = reason == SSL_R_BINDER_DOES_NOT_VERIFY ||
              reason == SSL_AD_REASON_OFFSET + SSL_AD_ILLEGAL_PARAMETER;
  const std::string detail = takeTlsError();
  if (wrongKey_) {
    return {StatusCode::kRefused,
            "the other side has another secret or belongs to another job (its key differs)"};
  }
  return {StatusCode::kRefused,
          fmt::format("the other side does not speak TLS 1.3 with the job's key ({})", detail)};
}

Status TlsStream::lost(std::string_view doing) {
  broken_ = true;
  return failure(doing);
}

Status TlsStream::failure(std::string_view doing) {
  const std::string detail = takeTlsError();
  if (errno_ != 0) {
    return {StatusCode::kPeerLost,
            fmt::format("the connection broke {}: {}", doing, std::strerror(errno_))};
  }
  if (ended_) {
    return {StatusCode::kPeerLost, fmt::format("the other side closed the connection {}", doing)};
  }
  return {StatusCode::kPeerLost, fmt::format("TLS failed {}: {}", doing, detail)};
}

Result<std::size_t> TlsStream::read(std::span<std::byte> out) {
  std::size_t total = 0;
  if (broken_) return lost("earlier");
  ERR_clear_error();
  while (total < out.size()) {
    std::size_t count = 0;
    const int outcome = SSL_read_ex(ssl_, out.data() + total, out.size() - total, &count);
    if (outcome == 1) {
      total += count;
      continue;
    }
    const int error = SSL_get_error(ssl_, outcome);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) break;
    if (error == SSL_ERROR_ZERO_RETURN) ended_ = true;
    broken_ = true;
    if (total > 0) break;  // The error comes with the next call.
    return lost("while reading");
  }
  return total;
}

Status TlsStream::refreshKey() {
  if (SSL_key_update(ssl_, SSL_KEY_UPDATE_NOT_REQUESTED) != 1) return lost("at a new key");
  records_ = 0;
  ++keyUpdates_;
  return {};
}

Result<std::size_t> TlsStream::write(std::span<const std::byte> data) {
  if (broken_ || unwritable_) return failure("earlier");
  if (data.empty()) return std::size_t{0};
  if (sealed_.size > 0 &&
      (data.size() < sealed_.size || crc32c(data.first(sealed_.size)) != sealed_.crc)) {
    unwritable_ = true;
    return {StatusCode::kPeerLost,
            "the connection was given up: a message was withdrawn while it was being sent"};
  }
  ERR_clear_error();
  std::size_t total = 0;
  while (total < data.size()) {
    if (records_ >= context_->recordsPerKey() && sealed_.size == 0) COLLA_TRY(refreshKey());
    const std::size_t size =
        sealed_.size > 0 ? sealed_.size
                         : std::min<std::size_t>(data.size() - total, SSL3_RT_MAX_PLAIN_LENGTH);
    std::size_t count = 0;
    const int outcome = SSL_write_ex(ssl_, data.data() + total, size, &count);
    if (outcome == 1) {
      total += count;
      sealed_ = {};
      ++records_;
      continue;
    }
    if (SSL_get_error(ssl_, outcome) != SSL_ERROR_WANT_WRITE) {
      unwritable_ = true;  // What the other side said before it left can still be read.
      return failure("while writing");
    }
    sealed_ = {size, crc32c(data.subspan(total, size))};
    break;
  }
  return total;
}

}  // namespace colla::transport::net
