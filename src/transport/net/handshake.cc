#include "transport/net/handshake.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/bytes.h"
#include "transport/net/socket.h"
#include "transport/net/socket_stream.h"

namespace colla::transport::net {
namespace {

constexpr std::size_t kHeader = 5;
constexpr std::size_t kNonce = 32;
constexpr std::size_t kMaxOpening = kNonce + kMaxHello;
constexpr std::size_t kMaxVerdict = 4096;
// Cleartext: a greeting that ends here tells its version and nothing more.
constexpr std::size_t kMinOpening = kNonce + sizeof(kMagic) + sizeof(kProtocolVersion);

Status refused(std::string message) { return {StatusCode::kRefused, std::move(message)}; }

}  // namespace

Handshake::Handshake(Side side, const HandshakeOptions& options)
    : side_(side), options_(options), deadline_(Deadline::after(options.timeout)) {
  options_.hello.side = side;
}

Handshake Handshake::accept(UniqueFd fd, const HandshakeOptions& options) {
  Handshake handshake(Side::kAcceptor, options);
  handshake.socket_ = std::move(fd);
  handshake.state_ = State::kConnecting;
  return handshake;
}

Result<Handshake> Handshake::connect(const std::string& address, const HandshakeOptions& options) {
  Handshake handshake(Side::kConnector, options);
  COLLA_TRY_ASSIGN(Address destination, Address::parse(address));
  COLLA_TRY_ASSIGN(handshake.socket_, startConnect(destination));
  handshake.destination_ = destination;
  handshake.state_ = State::kConnecting;
  return handshake;
}

int Handshake::fd() const { return stream_ != nullptr ? stream_->fd() : socket_.get(); }

Result<Step> Handshake::step() {
  auto step = advance();
  if (!step.ok() && failure_ == Failure::kNone) {
    failure_ = Failure::kLost;
    // One that speaks TLS hangs up on one that does not, without a word.
    if (side_ == Side::kConnector && state_ == State::kOpening) {
      return step.status().withContext("in the handshake (does it use another transport?)");
    }
  }
  if (step.ok() && *step != Step::kDone && deadline_.expired()) {
    if (state_ == State::kRefusing) return refusal_;
    return fail(Failure::kTimeout, {StatusCode::kTimeout, "the handshake took too long"});
  }
  return step;
}

Result<Step> Handshake::advance() {
  while (true) {
    switch (state_) {
      case State::kConnecting: {
        if (side_ == Side::kConnector) {
          // Without an outcome yet there is no other end.
          pollfd entry{socket_.get(), POLLOUT, 0};
          if (poll(&entry, 1, 0) == 0) return Step::kWantWrite;
          COLLA_TRY(finishConnect(socket_.get(), *destination_));
        }
        COLLA_TRY(start());
        break;
      }
      case State::kTls: {
        auto step = tls_->handshake();
        if (!step.ok()) {
          if (step.status().code() != StatusCode::kRefused) return step.status();
          return fail(tls_->wrongKey() ? Failure::kWrongSecret : Failure::kNotColla, step.status());
        }
        if (*step != Step::kDone) return *step;
        COLLA_TRY(begin());
        break;
      }
      case State::kRefusing:
        return refusalStep();
      case State::kDone: {
        COLLA_TRY_ASSIGN(const bool flushed, flush());
        return flushed ? Step::kDone : Step::kWantWrite;
      }
      case State::kOpening:
      case State::kProof:
      case State::kVerdict: {
        COLLA_TRY_ASSIGN(const bool flushed, flush());
        COLLA_TRY_ASSIGN(const bool complete, receive());
        if (!complete) return flushed ? Step::kWantRead : Step::kWantWrite;
        COLLA_TRY(onRecord());
        in_.clear();
        inDone_ = 0;
        break;
      }
    }
  }
}

// The connection stands: who is there, as far as the kernel knows?
Status Handshake::start() {
  COLLA_TRY_ASSIGN(const Address local, Address::ofLocalEnd(socket_.get()));
  if (local.isUnix()) {
    if (Status status = checkPeerUser(socket_.get()); !status.ok()) {
      return fail(Failure::kForeignUser, std::move(status));
    }
  }
  if (options_.tls == nullptr) {
    stream_ = std::make_unique<SocketStream>(std::move(socket_));
    return begin();
  }
  auto stream = std::make_unique<TlsStream>(options_.tls, std::move(socket_), side_);
  tls_ = stream.get();
  stream_ = std::move(stream);
  state_ = State::kTls;
  return {};
}

Status Handshake::begin() {
  ByteWriter writer;
  std::array<std::byte, kNonce> nonce{};
  fillRandom(nonce);
  writer.raw(nonce);
  writer.raw(encodeHello(options_.hello));
  mine_ = writer.take();
  if (mine_.size() > kMaxOpening) {
    return {
        StatusCode::kInvalidArgument,
        fmt::format("this process's name and settings are {} bytes long; at most {} can be sent",
                    mine_.size(), kMaxOpening)};
  }
  state_ = State::kOpening;
  if (side_ == Side::kConnector) send(Record::kOpening, mine_);
  return {};
}

Status Handshake::onRecord() {
  const auto type = static_cast<Record>(in_[0]);
  const auto payload = std::span(in_).subspan(kHeader);
  if (type == Record::kVerdict) {
    const bool yes = payload.empty();
    if (yes && state_ == State::kVerdict) {
      state_ = State::kDone;
      return {};
    }
    if (yes) return fail(Failure::kNotColla, refused("it broke off the handshake"));
    const std::string_view text(reinterpret_cast<const char*>(payload.data()), payload.size());
    const std::string who = theirs_.name.empty() ? std::string("the other side") : theirs_.name;
    return fail(Failure::kMixed,
                {StatusCode::kRefused,
                 fmt::format("{} refused this process: {}", who, printable(text, kMaxVerdict)),
                 theirs_.peer});
  }
  if (type == Record::kOpening && state_ == State::kOpening) return onOpening();
  if (type == Record::kProof && state_ == State::kProof) return onProof();
  return fail(Failure::kNotColla, refused("it broke the order of the handshake"));
}

Status Handshake::onOpening() {
  const auto payload = std::span<const std::byte>(in_).subspan(kHeader);
  if (payload.size() < kMinOpening) {
    return fail(Failure::kNotColla, refused("its greeting is malformed"));
  }
  ByteReader reader(payload.subspan(kNonce));
  if (reader.number<std::uint32_t>() != kMagic) {
    return fail(Failure::kNotColla, refused("it does not speak Colla's protocol"));
  }
  opening_.assign(payload.begin(), payload.end());
  if (side_ == Side::kAcceptor) send(Record::kOpening, mine_);
  if (const auto version = reader.number<std::uint16_t>(); version != kProtocolVersion) {
    const auto text = [](std::string_view first, auto a, std::string_view second, auto b) {
      return fmt::format("{} speaks version {} of the protocol, {} version {}", first, a, second,
                         b);
    };
    refuse(Failure::kMixed, refused(text("it", version, "this process", kProtocolVersion)),
           text("it", version, options_.hello.name, kProtocolVersion));
    return {};
  }
  if (!needsProof()) return judge();
  if (side_ == Side::kConnector) send(Record::kProof, proofOf(side_));
  state_ = State::kProof;
  return {};
}

Key Handshake::proofOf(Side side) const {
  const auto& connector = side_ == Side::kConnector ? mine_ : opening_;
  const auto& acceptor = side_ == Side::kConnector ? opening_ : mine_;
  const std::byte label{static_cast<std::uint8_t>(side)};  // The sides' proofs must differ.
  return authenticate(deriveKey(options_.secret, options_.hello.jobId, "colla plain proof"),
                      {std::span(&label, 1), connector, acceptor});
}

Status Handshake::onProof() {
  const Key expected = proofOf(other(side_));
  if (!equalSecrets(std::span(in_).subspan(kHeader), expected)) {
    constexpr std::string_view kWhy = "has another secret or belongs to another job";
    refuse(Failure::kWrongSecret, refused(fmt::format("the other side {}", kWhy)),
           fmt::format("it {}", kWhy));
    return {};
  }
  if (side_ == Side::kAcceptor) send(Record::kProof, proofOf(side_));
  return judge();
}

// The other side is proved: now its greeting may be read.
Status Handshake::judge() {
  auto hello = parseHello(std::span<const std::byte>(opening_).subspan(kNonce));
  if (!hello.ok()) return fail(Failure::kNotColla, hello.status());
  theirs_ = *std::move(hello);

  if (Status ours = compareHellos(theirs_, options_.hello); !ours.ok()) {
    const Status told = compareHellos(theirs_, options_.hello, options_.hello.name);
    refuse(Failure::kMixed, std::move(ours), told.message());
    return {};
  }
  if (options_.check != nullptr) {
    if (Status status = options_.check(theirs_); !status.ok()) {
      const std::string text(status.message());
      refuse(Failure::kMixed, std::move(status), text);
      return {};
    }
  }
  sendVerdict({});
  state_ = State::kVerdict;
  return {};
}

void Handshake::refuse(Failure failure, Status status, std::string_view told) {
  failure_ = failure;
  refusal_ = std::move(status);
  sendVerdict(told.empty() ? "no reason given" : told);
  state_ = State::kRefusing;
}

Status Handshake::fail(Failure failure, Status status) {
  failure_ = failure;
  return status;
}

// Tells our refusal, then waits for the other side to close: if we closed first with bytes of its
// own unread, the kernel would reset the connection and our words could be lost.
Result<Step> Handshake::refusalStep() {
  if (!told_) {
    const auto flushed = flush();
    if (!flushed.ok()) return refusal_;
    if (!*flushed) return Step::kWantWrite;
    (void)shutdown(fd(), SHUT_WR);
    told_ = true;
  }
  std::array<std::byte, 4096> waste;
  for (std::size_t drained = 0; drained < kMaxOpening;) {
    const ssize_t count = recv(fd(), waste.data(), waste.size(), 0);
    if (count < 0 && errno == EAGAIN) return Step::kWantRead;
    if (count <= 0) break;
    drained += static_cast<std::size_t>(count);
  }
  return refusal_;
}

void Handshake::send(Record type, std::span<const std::byte> payload) {
  ByteWriter writer;
  writer.number(type);
  writer.number(static_cast<std::uint32_t>(payload.size()));
  writer.raw(payload);
  const auto bytes = writer.bytes();
  out_.insert(out_.end(), bytes.begin(), bytes.end());
}

void Handshake::sendVerdict(std::string_view refusal) {
  send(Record::kVerdict, std::as_bytes(std::span(refusal.substr(0, kMaxVerdict))));
}

Result<bool> Handshake::flush() {
  while (outDone_ < out_.size()) {
    COLLA_TRY_ASSIGN(const std::size_t count,
                     stream_->write(std::span<const std::byte>(out_).subspan(outDone_)));
    if (count == 0) return false;
    outDone_ += count;
  }
  return true;
}

// Reads no byte beyond the record: what follows the handshake belongs to the stream's next owner.
Result<bool> Handshake::receive() {
  if (in_.empty()) in_.resize(kHeader);
  while (inDone_ < in_.size()) {
    COLLA_TRY_ASSIGN(const std::size_t count, stream_->read(std::span(in_).subspan(inDone_)));
    if (count == 0) return false;
    inDone_ += count;
    if (inDone_ != kHeader) continue;

    ByteReader reader(in_);
    const auto type = reader.number<Record>();
    const std::size_t size = reader.number<std::uint32_t>();
    const bool allowed = (type == Record::kOpening && size <= kMaxOpening) ||
                         (type == Record::kProof && size == sizeof(Key)) ||
                         (type == Record::kVerdict && size <= kMaxVerdict);
    if (!allowed) {
      return fail(
          Failure::kNotColla,
          refused(in_[0] == std::byte{21} || in_[0] == std::byte{22}  // A TLS alert or handshake.
                      ? "it speaks TLS, and this process does not (transport tcp-plain?)"
                      : "it does not speak Colla's protocol"));
    }
    in_.resize(kHeader + size);
  }
  return true;
}

Result<Connection> connectNow(const std::string& address, const HandshakeOptions& options,
                              Deadline deadline) {
  COLLA_TRY_ASSIGN(Handshake handshake, Handshake::connect(address, options));
  while (true) {
    const auto step = handshake.step();
    if (!step.ok()) return step.status().withContext(address);
    if (*step == Step::kDone) return Connection{handshake.takeStream(), handshake.theirs()};
    const Status status = waitFor(handshake.fd(), *step == Step::kWantRead ? POLLIN : POLLOUT,
                                  deadline.earlier(handshake.deadline()));
    if (!status.ok() && deadline.expired()) {
      return status.withContext(fmt::format("connecting to {}", address));
    }
  }
}

}  // namespace colla::transport::net
