#include "transport/ucx/newcomer.h"

#include <array>
#include <cstring>
#include <utility>

#include "base/bytes.h"

namespace colla::transport::ucx {
namespace {

constexpr std::size_t kSize = sizeof(std::uint32_t);
constexpr std::size_t kNonce = 32;
constexpr std::size_t kMostRecord = 64 << 10;
constexpr std::size_t kAddress = kSize + sizeof(std::uint64_t) + kNonce;

}  // namespace

Newcomer::Newcomer(int peer, std::unique_ptr<Stream> tls, std::shared_ptr<Worker> worker,
                   const Options& options)
    : peer_(peer),
      tls_(std::move(tls)),
      options_(&options),
      worker_(std::move(worker)),
      stream_(std::make_unique<UcxStream>(worker_)),
      theirs_(kSize) {
  std::array<std::byte, kNonce> nonce{};
  net::fillRandom(nonce);
  const auto& address = worker_->address();
  ByteWriter writer;
  writer.number(static_cast<std::uint32_t>(kAddress - kSize + address.size()));
  writer.number(stream_->number());
  writer.raw(nonce);
  writer.raw(address);
  mine_ = writer.take();
}

Newcomer::~Newcomer() = default;

Result<bool> Newcomer::step() {
  if (tls_ != nullptr) {
    COLLA_TRY(exchange());
    if (wantsWrite() || read_ < theirs_.size()) return false;
    ByteReader reader(std::span<const std::byte>(theirs_).subspan(kSize));
    COLLA_TRY(stream_->connect(reader.number<std::uint64_t>(),
                               std::span<const std::byte>(theirs_).subspan(kAddress),
                               /*first=*/!connects()));
    stream_->sendProof(proofOf(connects()));
    stream_->adopt(std::move(tls_));
  }
  stream_->readLifeline();
  if (stream_->proof().empty()) {
    COLLA_TRY(stream_->problem());
    return false;
  }
  if (net::equalSecrets(stream_->proof(), proofOf(!connects()))) return true;
  return {StatusCode::kRefused, "over UCX it does not prove that it knows the job's secret"};
}

int Newcomer::fd() const { return tls_ != nullptr ? tls_->fd() : stream_->lifelineFd(); }

Status Newcomer::exchange() {
  while (wantsWrite()) {
    COLLA_TRY_ASSIGN(const std::size_t count,
                     tls_->write(std::span<const std::byte>(mine_).subspan(written_)));
    if (count == 0) break;
    written_ += count;
  }
  while (read_ < theirs_.size()) {
    COLLA_TRY_ASSIGN(const std::size_t count, tls_->read(std::span(theirs_).subspan(read_)));
    if (count == 0) break;
    read_ += count;
    if (read_ != kSize) continue;
    std::uint32_t size = 0;
    std::memcpy(&size, theirs_.data(), kSize);
    if (size <= kAddress - kSize || size > kMostRecord) {
      return {StatusCode::kRefused, "its address in UCX is malformed"};
    }
    theirs_.resize(kSize + size);
  }
  return {};
}

net::Key Newcomer::proofOf(bool connector) const {
  const std::byte label{connector ? std::uint8_t{1} : std::uint8_t{2}};
  const auto& epoch = options_->epoch;
  return net::authenticate(net::deriveKey(options_->secret, options_->jobId, "colla ucx proof"),
                           {std::span(&label, 1), std::as_bytes(std::span(&epoch, 1)),
                            connects() ? mine_ : theirs_, connects() ? theirs_ : mine_});
}

}  // namespace colla::transport::ucx
