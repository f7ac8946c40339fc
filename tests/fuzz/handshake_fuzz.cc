// The handshake that opens every connection, in the clear: what strangers can say before any proof.
//
// The first byte says which side the stranger is at and whether there is a secret; the rest is what
// it does, a byte for each deed and what that needs. Whole records can be right, so that what
// follows is reached.
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/log.h"
#include "transport/net/handshake.h"
#include "transport/net/keys.h"
#include "transport/net/socket.h"

namespace colla::transport::net {
namespace {

using Bytes = std::span<const std::byte>;

const std::string kSecret = "0123456789abcdef0123456789abcdef";

enum Deed { kRaw, kGoodOpening, kOpening, kGoodProof, kProof, kYes, kNo, kHangUp, kDeeds };
constexpr std::uint8_t kOpeningRecord = 1, kProofRecord = 2, kVerdictRecord = 3;

HandshakeOptions optionsOf(bool secret, const std::string& name) {
  HandshakeOptions options;
  options.hello.jobId = "job 7";
  options.hello.name = name;
  options.hello.identity = {"0.1.0", "2.13.0", "avx2", "slices=4\n"};
  if (secret) options.secret = kSecret;
  return options;
}

// The other end of the handshake's socket.
class Stranger {
 public:
  Stranger(UniqueFd socket, Side side, const HandshakeOptions& options)
      : socket_(std::move(socket)), side_(side), options_(options) {
    options_.hello.side = side;
  }

  // Takes what the next deed needs from the front of `input`.
  void act(Bytes& input) {
    const auto deed = static_cast<int>(take(input, 1)[0]) % kDeeds;
    const std::size_t length = input.empty() ? 0 : static_cast<std::size_t>(take(input, 1)[0]);
    switch (deed) {
      case kRaw:
        return say(take(input, length));
      case kGoodOpening:
        return open(encodeHello(options_.hello));
      case kOpening:
        return open(take(input, length));
      case kGoodProof:
        hear();
        proved_ = true;
        return record(kProofRecord, proof());
      case kProof:
        return record(kProofRecord, take(input, sizeof(Key)));
      case kYes:
        return record(kVerdictRecord, {});
      case kNo:
        return record(kVerdictRecord, take(input, length));
      default:
        shutdown(socket_.get(), SHUT_WR);
    }
  }
  bool proved() const { return proved_; }
  void leave() { socket_.reset(); }

 private:
  static Bytes take(Bytes& input, std::size_t count) {
    const Bytes part = input.first(std::min(count, input.size()));
    input = input.subspan(part.size());
    return part;
  }
  void say(Bytes bytes) {
    (void)!send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  void record(std::uint8_t type, Bytes payload) {
    ByteWriter writer;
    writer.number(type);
    writer.number(static_cast<std::uint32_t>(payload.size()));
    writer.raw(payload);
    say(writer.bytes());
  }
  void open(Bytes hello) {
    const std::array<std::byte, 32> nonce{};
    mine_.assign(nonce.begin(), nonce.end());
    mine_.insert(mine_.end(), hello.begin(), hello.end());
    record(kOpeningRecord, mine_);
  }
  // The first record that the handshake sends is its opening.
  void hear() {
    std::array<std::byte, 4096> part;
    ssize_t count = 0;
    while ((count = recv(socket_.get(), part.data(), part.size(), MSG_DONTWAIT)) > 0) {
      heard_.insert(heard_.end(), part.begin(), part.begin() + count);
    }
  }
  Key proof() const {
    ByteReader reader(heard_);
    reader.number<std::uint8_t>();
    const Bytes theirs = reader.raw(reader.number<std::uint32_t>());
    const Bytes connector = side_ == Side::kConnector ? Bytes(mine_) : theirs;
    const Bytes acceptor = side_ == Side::kConnector ? theirs : Bytes(mine_);
    const std::byte label{static_cast<std::uint8_t>(side_)};
    return authenticate(deriveKey(kSecret, options_.hello.jobId, "colla plain proof"),
                        {std::span(&label, 1), connector, acceptor});
  }

  UniqueFd socket_;
  Side side_;
  HandshakeOptions options_;
  std::vector<std::byte> mine_, heard_;
  bool proved_ = false;
};

UniqueFd must(Result<UniqueFd> fd) {
  if (!fd.ok() || !fd->valid()) std::abort();
  return *std::move(fd);
}

void run(Bytes input) {
  if (input.empty()) return;
  const auto choice = std::to_integer<unsigned>(input[0]);
  input = input.subspan(1);
  const bool secret = (choice & 1) != 0;
  const Side side = (choice & 2) != 0 ? Side::kConnector : Side::kAcceptor;  // The stranger's.
  const auto options = optionsOf(secret, "rank 0 on host a");

  static const std::string address = "unix:@colla-handshake-fuzz-" + std::to_string(getpid());
  static const UniqueFd listening = must(listenOn(*Address::parse(address)));
  std::optional<Handshake> handshake;
  UniqueFd theirs;
  if (side == Side::kConnector) {
    theirs = must(startConnect(*Address::parse(address)));
    handshake.emplace(Handshake::accept(must(acceptOn(listening.get())), options));
  } else {
    auto connecting = Handshake::connect(address, options);
    if (!connecting.ok()) std::abort();
    handshake.emplace(*std::move(connecting));
    theirs = must(acceptOn(listening.get()));
  }
  Stranger stranger(std::move(theirs), side, optionsOf(secret, "rank 1 on host b"));

  const auto goesOn = [&] {
    const auto step = handshake->step();
    if (!step.ok()) {
      if (handshake->failure() == Handshake::Failure::kNone) std::abort();
      if (step.status().message().empty()) std::abort();
      return false;
    }
    if (*step != Step::kDone) return true;
    // Nobody comes in without the secret, nor as somebody of another job.
    if (secret && !stranger.proved()) std::abort();
    if (handshake->theirs().jobId != "job 7" || handshake->takeStream() == nullptr) std::abort();
    return false;
  };
  bool on = goesOn();
  while (on && !input.empty()) {
    stranger.act(input);
    on = goesOn();
  }
  stranger.leave();
  if (on && goesOn()) std::abort();  // With nobody there it ends, one way or the other.
}

}  // namespace
}  // namespace colla::transport::net

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  colla::log::setLevel(colla::log::Level::kOff);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  colla::transport::net::run(std::as_bytes(std::span(data, size)));
  return 0;
}
