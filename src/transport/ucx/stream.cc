#include "transport/ucx/stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

namespace colla::transport::ucx {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kWindow = 1 << 20;
constexpr std::size_t kPacketBytes = 64 << 10;
constexpr std::size_t kMostPackets = 32;  // That UCX has not sent yet.
constexpr std::size_t kMostProof = 64;
// Between the end of the lifeline, or of a lane, and the arrival of what was sent before.
constexpr auto kLastWords = 1s;
constexpr int kLastRounds = 4096;  // Of UCX's progress, to take what has arrived before that ended.

}  // namespace

// The lanes for PeerLink, which does not hold the worker's mutex.
class UcxStream::LockedLanes final : public Bodies {
 public:
  LockedLanes(Worker& worker, Lanes& lanes) : worker_(worker), lanes_(lanes) {}

  bool able() const override {
    const MutexLock lock(worker_.mutex());
    return lanes_.able();
  }
  bool room() const override {
    const MutexLock lock(worker_.mutex());
    return lanes_.room();
  }
  std::uint64_t send(std::span<const std::byte> body) override {
    const MutexLock lock(worker_.mutex());
    return lanes_.send(body);
  }
  void receive(std::uint64_t number, std::span<std::byte> into) override {
    const MutexLock lock(worker_.mutex());
    lanes_.receive(number, into);
  }
  void refuse(std::uint64_t number) override {
    const MutexLock lock(worker_.mutex());
    lanes_.refuse(number);
  }
  void withdraw(Id id) override {
    const MutexLock lock(worker_.mutex());
    lanes_.withdraw(id);
  }
  void poll(std::vector<Id>& ended) override {
    const MutexLock lock(worker_.mutex());
    if (!lanes_.hasEnded()) (void)worker_.progress();
    lanes_.poll(ended);
  }

 private:
  Worker& worker_;
  Lanes& lanes_;
};

UcxStream::UcxStream(std::shared_ptr<Worker> worker)
    : worker_(std::move(worker)), number_(worker_->add(*this)) {}

// The peer reads what was sent as long as it is told how much that is.
UcxStream::~UcxStream() {
  const MutexLock lock(worker_->mutex());
  if (lanes_ != nullptr) lanes_->closeAll();
  if (endpoint_ != nullptr) endpoint_->close();
  if (lifeline_ != nullptr && lifelineEnd_.ok() && failure_.ok()) {
    (void)lifeline_->write(std::as_bytes(std::span(&sent_, 1)));
  }
  const auto over = [&] { return spare_.size() == packets_.size(); };
  if (!worker_->progressUntil(over, kLastWords)) {
    // UCX may still call back for these, so they stay in memory, for nobody.
    for (auto& packet : packets_) {
      packet->owner = nullptr;
      worker_->keep(std::shared_ptr<Packet>(std::move(packet)));
    }
  }
  worker_->remove(number_);
}

Status UcxStream::connect(std::uint64_t theirNumber, std::span<const std::byte> address,
                          bool first) {
  theirNumber_ = theirNumber;
  COLLA_TRY_ASSIGN(endpoint_, Endpoint::create(*worker_, address));
  COLLA_TRY_ASSIGN(lanes_, Lanes::create(*worker_, address, theirNumber, number_, first,
                                         [this](const Header& header) { send(header, {}); }));
  lockedLanes_ = std::make_unique<LockedLanes>(*worker_, *lanes_);
  return {};
}

void UcxStream::sendProof(std::span<const std::byte> proof) {
  send({.link = theirNumber_, .kind = PacketKind::kProof}, proof);
}

Bodies* UcxStream::bodies() { return lockedLanes_.get(); }

void UcxStream::send(const Header& header, std::span<const std::byte> bytes) {
  if (!endpoint_->open()) return;
  if (spare_.empty()) {
    packets_.push_back(std::make_unique<Packet>());
    packets_.back()->owner = this;
    spare_.push_back(packets_.back().get());
  }
  Packet& packet = *spare_.back();
  spare_.pop_back();
  packet.header = header;
  packet.bytes.assign(bytes.begin(), bytes.end());
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  param.cb.send = &UcxStream::onSent;
  param.user_data = &packet;
  void* const request = worker_->library().amSendNbx(endpoint_->get(), kMessageId, &packet.header,
                                                     sizeof(packet.header), packet.bytes.data(),
                                                     packet.bytes.size(), &param);
  if (request == nullptr || UCS_PTR_IS_ERR(request)) {
    onSent(nullptr, UCS_PTR_STATUS(request), &packet);
  }
  worker_->assumeLocked();
  worker_->started();
}

void UcxStream::sendCredit() {
  send({.link = theirNumber_, .first = received_, .second = read_, .kind = PacketKind::kCredit},
       {});
  toldRead_ = read_;
}

// The endpoint says what went wrong.
void UcxStream::onSent(void* request, ucs_status_t, void* user) {
  auto& packet = *static_cast<Packet*>(user);
  if (packet.owner == nullptr) return;
  if (request != nullptr) packet.owner->worker_->library().requestFree(request);
  packet.owner->spare_.push_back(&packet);
}

void UcxStream::onPacket(const Header& header, std::span<const std::byte> bytes) {
  worker_->assumeLocked();
  switch (header.kind) {
    case PacketKind::kProof:
      if (proof_.empty() && bytes.size() <= kMostProof) proof_.assign(bytes.begin(), bytes.end());
      return;
    case PacketKind::kData:
      onData(header.first, bytes);
      if (header.second <= sent_) readByPeer_ = std::max(readByPeer_, header.second);
      return;
    case PacketKind::kCredit:
      if (header.second <= sent_) readByPeer_ = std::max(readByPeer_, header.second);
      if (header.first <= sent_) arrivedAtPeer_ = std::max(arrivedAtPeer_, header.first);
      return;
    case PacketKind::kLast:
      wantedByPeer_ = std::max(wantedByPeer_, header.first);
      if (received_ >= wantedByPeer_) worker_->needsSettling(number_);
      return;
    case PacketKind::kLaneClosed:
      if (lanes_ != nullptr) lanes_->onLaneClosed(header);
      return;
    case PacketKind::kBody:
      return;
  }
}

// UCX may bring a short packet before a long one that was sent before it.
void UcxStream::onData(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (offset < received_ || bytes.empty() || offset + bytes.size() > read_ + kWindow) {
    failure_ = {StatusCode::kRefused, "it sends more than it may"};
    return;
  }
  if (offset != received_) {
    tooEarly_.try_emplace(offset, bytes.begin(), bytes.end());
    return;
  }
  inbox_.emplace_back(bytes.begin(), bytes.end());
  received_ += bytes.size();
  for (auto next = tooEarly_.find(received_); next != tooEarly_.end();
       next = tooEarly_.find(received_)) {
    received_ += next->second.size();
    inbox_.push_back(std::move(next->second));
    tooEarly_.erase(next);
  }
  worker_->assumeLocked();
  if (wantedByPeer_ > 0 && received_ >= wantedByPeer_) worker_->needsSettling(number_);
}

bool UcxStream::onBody(const Header& header, void* descriptor, std::size_t size) {
  return lanes_ != nullptr && lanes_->onBody(header, descriptor, size);
}

void UcxStream::settle() {
  worker_->assumeLocked();
  if (wantedByPeer_ > 0 && received_ >= wantedByPeer_) {
    wantedByPeer_ = 0;
    sendCredit();
  }
  if (lanes_ != nullptr) lanes_->settle();
}

std::size_t UcxStream::room() const {
  if (packets_.size() - spare_.size() >= kMostPackets) return 0;
  return kWindow - static_cast<std::size_t>(sent_ - readByPeer_);
}

Result<std::size_t> UcxStream::write(std::span<const std::byte> data) {
  const MutexLock lock(worker_->mutex());
  lookForTheEnd();
  if (!failure_.ok()) return failure_;
  const std::size_t count = std::min({data.size(), room(), kPacketBytes});
  if (count == 0) return std::size_t{0};
  send({.link = theirNumber_, .first = sent_, .second = read_, .kind = PacketKind::kData},
       data.first(count));
  toldRead_ = read_;
  sent_ += count;
  return count;
}

Result<std::size_t> UcxStream::read(std::span<std::byte> out) {
  const MutexLock lock(worker_->mutex());
  if (inbox_.empty()) (void)worker_->progress();
  std::size_t count = 0;
  while (count < out.size() && !inbox_.empty()) {
    const std::vector<std::byte>& first = inbox_.front();
    const std::size_t part = std::min(out.size() - count, first.size() - inboxDone_);
    std::memcpy(out.data() + count, first.data() + inboxDone_, part);
    count += part;
    inboxDone_ += part;
    if (inboxDone_ < first.size()) break;
    inbox_.pop_front();
    inboxDone_ = 0;
  }
  read_ += count;
  if (read_ - toldRead_ >= kWindow / 4) {
    sendCredit();
  }
  if (count > 0) endingUntil_ = Deadline::never();  // Whoever still comes has its time again.
  if (count > 0 || out.empty()) return count;
  lookForTheEnd();
  if (!failure_.ok()) return failure_;
  return std::size_t{0};
}

Status UcxStream::problem() {
  lookForTheEnd();
  return failure_;
}

bool UcxStream::readable() {
  lookForTheEnd();
  return !inbox_.empty() || !failure_.ok() || (lanes_ != nullptr && lanes_->hasEnded());
}

// What has arrived comes first. Who leaves says on the lifeline how much that is; of one that died
// without a word, everything has come once the stream's own endpoint has ended as well. A lane may
// bring a body after all that, and a lane, an endpoint or the lifeline may end before.
void UcxStream::lookForTheEnd() {
  if (!failure_.ok() || lanes_ == nullptr || !inbox_.empty()) return;
  Status why = lanes_->failure();
  if (!why.ok() && why.code() != StatusCode::kPeerLost) {
    failure_ = std::move(why);
    return;
  }
  const bool ended = endpoint_->error() != UCS_OK;
  if (ended) {
    why = {StatusCode::kPeerLost,
           fmt::format("UCX: {}", worker_->library().statusString(endpoint_->error()))};
  }
  if (!lifelineEnd_.ok()) why = lifelineEnd_;
  if (why.ok()) {
    endingUntil_ = Deadline::never();
    return;
  }
  if (!ending()) endingUntil_ = Deadline::after(kLastWords);
  std::uint64_t total = 0;
  const bool told = farewell_.size() == sizeof(total);
  if (told) std::memcpy(&total, farewell_.data(), sizeof(total));
  const bool came = told ? received_ == total : ended;
  const bool complete = !lifelineEnd_.ok() && came && !lanes_->receiving();
  if (complete || (endingUntil_.expired() && !takeTheRest())) failure_ = std::move(why);
}

// Time may have passed without a look, on a machine with too much to do: what has arrived by now
// counts all the same.
bool UcxStream::takeTheRest() {
  worker_->assumeLocked();
  const auto news = [&] { return !inbox_.empty() || lanes_->hasEnded(); };
  for (int round = 0; round < kLastRounds && !news() && worker_->progress(); ++round) {
  }
  return news();
}

int UcxStream::lifelineFd() const {
  return lifeline_ == nullptr || !lifelineEnd_.ok() ? -1 : lifeline_->fd();
}

void UcxStream::readLifeline() {
  while (lifelineFd() >= 0) {
    std::array<std::byte, 64> bytes;
    const auto count = lifeline_->read(bytes);
    if (!count.ok()) {
      lifelineEnd_ = {StatusCode::kPeerLost, std::string(count.status().message())};
      return;
    }
    if (*count == 0) return;
    farewell_.insert(farewell_.end(), bytes.begin(),
                     bytes.begin() + static_cast<std::ptrdiff_t>(*count));
    if (farewell_.size() > sizeof(std::uint64_t)) {
      lifelineEnd_ = {StatusCode::kPeerLost, "it says more than goodbye"};
    }
  }
}

bool UcxStream::inFlight() {
  const MutexLock lock(worker_->mutex());
  if (!failure_.ok() || !endpoint_->open()) return false;
  readLifeline();  // Nobody else may look at it now.
  if (askedAbout_ < sent_) {
    askedAbout_ = sent_;
    send({.link = theirNumber_, .first = sent_, .kind = PacketKind::kLast}, {});
  }
  const bool moving = worker_->inFlight();
  return moving || (arrivedAtPeer_ < sent_ && lifelineEnd_.ok() && endpoint_->error() == UCS_OK);
}

}  // namespace colla::transport::ucx
