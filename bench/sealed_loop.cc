#include "bench/sealed_loop.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "transport/net/address.h"
#include "transport/net/socket.h"

namespace colla::bench {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kRecord = 16 << 10;  // The largest of TLS.
constexpr std::size_t kTag = 16;
constexpr std::size_t kSealed = kRecord + kTag;
constexpr std::size_t kRecordsPerCall = 16;
constexpr int kPatience = 60'000;  // Milliseconds, for the other rank.

using Bytes = std::vector<unsigned char>;

Status ioError(const char* what) {
  return {StatusCode::kIo, fmt::format("{}: {}", what, std::strerror(errno))};
}

// Seals or opens one record after another, each with its number as the nonce.
class Cipher {
 public:
  explicit Cipher(bool seals) : context_(EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free), seals_(seals) {
    constexpr std::array<unsigned char, 16> kKey = {1, 2, 3};
    (void)EVP_CipherInit_ex(context_.get(), EVP_aes_128_gcm(), nullptr, kKey.data(), nullptr,
                            seals ? 1 : 0);
  }
  void seal(std::span<const unsigned char> plain, unsigned char* sealed) {
    start();
    int size = 0;
    (void)EVP_EncryptUpdate(context_.get(), sealed, &size, plain.data(),
                            static_cast<int>(plain.size()));
    (void)EVP_EncryptFinal_ex(context_.get(), sealed + size, &size);
    (void)EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_GCM_GET_TAG, kTag, sealed + plain.size());
  }
  // Whether nobody has changed it.
  bool open(unsigned char* sealed, std::span<unsigned char> plain) {
    start();
    int size = 0;
    (void)EVP_DecryptUpdate(context_.get(), plain.data(), &size, sealed,
                            static_cast<int>(plain.size()));
    (void)EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_GCM_SET_TAG, kTag, sealed + plain.size());
    return EVP_DecryptFinal_ex(context_.get(), plain.data() + size, &size) == 1;
  }

 private:
  void start() {
    std::array<unsigned char, 12> nonce{};
    std::memcpy(nonce.data(), &records_, sizeof(records_));
    ++records_;
    (void)EVP_CipherInit_ex(context_.get(), nullptr, nullptr, nullptr, nonce.data(),
                            seals_ ? 1 : 0);
  }

  const std::unique_ptr<EVP_CIPHER_CTX, void (*)(EVP_CIPHER_CTX*)> context_;
  const bool seals_;
  std::uint64_t records_ = 0;
};

class SealedLoop final : public Workload {
 public:
  SealedLoop(int rank, std::string address) : rank_(rank), address_(std::move(address)) {}

  Status prepare(const std::string& what) override {
    std::istringstream words(what);
    std::string operation;
    std::size_t elements = 0;
    if (!(words >> operation >> elements)) {
      return {StatusCode::kInvalidArgument, fmt::format("\"{}\" means nothing here", what)};
    }
    out_.assign(elements * sizeof(float), 0);
    in_.assign(out_.size(), 0);
    return socket_.valid() ? Status() : connect();
  }

  Result<double> verify(long) override {
    for (std::size_t i = 0; i < out_.size(); ++i) {
      out_[i] = static_cast<unsigned char>(i * 7 + static_cast<std::size_t>(rank_));
    }
    COLLA_TRY(run(1));
    for (std::size_t i = 0; i < in_.size(); ++i) {
      if (in_[i] != static_cast<unsigned char>(i * 7 + static_cast<std::size_t>(1 - rank_))) {
        return {StatusCode::kInternal, fmt::format("wrong byte {} of {}", i, in_.size())};
      }
    }
    return 0.0;
  }

  Status barrier() override {
    std::array<unsigned char, kSealed> bytes{};
    COLLA_TRY(sendAll({bytes.data(), 1}));
    return receiveAll({bytes.data(), 1});
  }

  Status run(long iterations) override {
    Status sent;
    std::jthread sender([&] {
      for (long i = 0; i < iterations && sent.ok(); ++i) sent = sendBuffer();
    });
    for (long i = 0; i < iterations; ++i) COLLA_TRY(receiveBuffer());
    sender.join();
    return sent;
  }

 private:
  Status connect() {
    COLLA_TRY_ASSIGN(const auto address, transport::net::Address::parse(address_));
    const Deadline deadline = Deadline::after(20s);
    if (rank_ == 0) {
      COLLA_TRY_ASSIGN(const UniqueFd listener, transport::net::listenOn(address));
      COLLA_TRY(transport::net::waitFor(listener.get(), POLLIN, deadline));
      COLLA_TRY_ASSIGN(socket_, transport::net::acceptOn(listener.get()));
      return {};
    }
    while (true) {  // Until rank 0 listens.
      COLLA_TRY_ASSIGN(socket_, transport::net::startConnect(address));
      COLLA_TRY(transport::net::waitFor(socket_.get(), POLLOUT, deadline));
      const Status done = transport::net::finishConnect(socket_.get(), address);
      if (done.ok() || deadline.expired()) return done;
      std::this_thread::sleep_for(10ms);
    }
  }

  Status sendBuffer() {
    Bytes batch(kRecordsPerCall * kSealed);
    for (std::size_t done = 0; done < out_.size();) {
      std::size_t size = 0;
      while (done < out_.size() && size + kSealed <= batch.size()) {
        const std::size_t part = std::min(kRecord, out_.size() - done);
        sealer_.seal({out_.data() + done, part}, batch.data() + size);
        done += part;
        size += part + kTag;
      }
      COLLA_TRY(sendAll({batch.data(), size}));
    }
    return {};
  }

  Status receiveBuffer() {
    Bytes batch(kRecordsPerCall * kSealed);
    for (std::size_t done = 0; done < in_.size();) {
      const std::size_t plain = std::min(kRecordsPerCall * kRecord, in_.size() - done);
      const std::size_t records = (plain + kRecord - 1) / kRecord;
      COLLA_TRY(receiveAll({batch.data(), plain + records * kTag}));
      for (std::size_t record = 0; record < records; ++record) {
        const std::size_t part = std::min(kRecord, in_.size() - done);
        if (!opener_.open(batch.data() + record * kSealed, {in_.data() + done, part})) {
          return {StatusCode::kInternal, "a record was changed on the way"};
        }
        done += part;
      }
    }
    return {};
  }

  Status sendAll(std::span<const unsigned char> bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count < 0 && errno != EAGAIN) return ioError("send");
      if (count > 0) {
        bytes = bytes.subspan(static_cast<std::size_t>(count));
      } else {
        COLLA_TRY(await(POLLOUT));
      }
    }
    return {};
  }

  Status receiveAll(std::span<unsigned char> bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
      if (count == 0) return {StatusCode::kPeerLost, "the other rank has gone"};
      if (count < 0 && errno != EAGAIN) return ioError("recv");
      if (count > 0) {
        bytes = bytes.subspan(static_cast<std::size_t>(count));
      } else {
        COLLA_TRY(await(POLLIN));
      }
    }
    return {};
  }

  Status await(short events) const {
    pollfd entry{socket_.get(), events, 0};
    return poll(&entry, 1, kPatience) > 0 ? Status() : ioError("poll");
  }

  const int rank_;
  const std::string address_;
  UniqueFd socket_;
  Cipher sealer_{/*seals=*/true};
  Cipher opener_{/*seals=*/false};
  Bytes out_;
  Bytes in_;
};

}  // namespace

std::unique_ptr<Workload> makeSealedLoop(int rank, const std::string& address) {
  return std::make_unique<SealedLoop>(rank, address);
}

}  // namespace colla::bench
