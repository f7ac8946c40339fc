#include "transport/ucx/lanes.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

namespace colla::transport::ucx {
namespace {

// To take back what is under way on a lane that was closed takes no time at all.
constexpr std::chrono::seconds kWithdrawLimit{10};

Status refused(const char* what) { return {StatusCode::kRefused, what}; }

}  // namespace

Result<std::unique_ptr<Lanes>> Lanes::create(Worker& worker, std::span<const std::byte> address,
                                             std::uint64_t link, std::uint64_t own, bool first,
                                             Tell tell) {
  std::unique_ptr<Lanes> made(new Lanes(worker, link, own, std::move(tell)));
  for (auto* lanes : {first ? &made->out_ : &made->in_, first ? &made->in_ : &made->out_}) {
    for (Lane& lane : *lanes) {
      COLLA_TRY_ASSIGN(lane.endpoint, Endpoint::create(worker, address));
    }
  }
  return made;
}

bool Lanes::able() const {
  return std::ranges::any_of(out_, [](const Lane& lane) { return lane.endpoint->open(); });
}

const Lanes::Lane* Lanes::freeLane() const {
  const auto lane =
      std::ranges::find_if(out_, [](const Lane& l) { return l.endpoint->open() && !l.busy; });
  return lane == out_.end() ? nullptr : &*lane;
}

std::uint64_t Lanes::send(std::span<const std::byte> body) {
  const auto lane = static_cast<std::size_t>(freeLane() - out_.data());
  const std::uint64_t number = ++last_;
  Sent& sent = sent_[number];
  sent = {this,
          {.link = link_,
           .first = number,
           .kind = PacketKind::kBody,
           .lane = static_cast<std::uint32_t>(lane)}};
  out_[lane].busy = true;
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.flags = UCP_AM_SEND_FLAG_RNDV;
  param.cb.send = &Lanes::onSent;
  param.user_data = &sent;
  void* const request =
      worker_.library().amSendNbx(out_[lane].endpoint->get(), kMessageId, &sent.header,
                                  sizeof(sent.header), body.data(), body.size(), &param);
  if (request == nullptr || UCS_PTR_IS_ERR(request))
    onSent(nullptr, UCS_PTR_STATUS(request), &sent);
  worker_.assumeLocked();
  worker_.started();
  return number;
}

void Lanes::onSent(void* request, ucs_status_t status, void* user) {
  Sent& sent = *static_cast<Sent*>(user);
  if (sent.lanes == nullptr) return;  // Abandoned: see closeLane().
  Lanes& self = *sent.lanes;
  if (request != nullptr) self.worker_.library().requestFree(request);
  sent.done = true;
  if (status != UCS_OK) return self.failed(self.out_[sent.header.lane], status);
  self.out_[sent.header.lane].busy = false;
  self.ended_.push_back({sent.header.first, /*sent=*/true});
}

void Lanes::receive(std::uint64_t number, std::span<std::byte> into) {
  Received& body = received_[number];
  body.lanes = this;
  body.number = number;
  body.into = into;
  body.wanted = true;
  if (body.descriptor != nullptr) fetch(body);
}

void Lanes::refuse(std::uint64_t number) {
  Received& body = received_[number];
  if (body.descriptor != nullptr) {
    worker_.library().amDataRelease(worker_.get(), body.descriptor);
    worker_.assumeLocked();
    worker_.started();
    received_.erase(number);
    return;
  }
  body.lanes = this;
  body.number = number;
  body.refused = true;
}

bool Lanes::onBody(const Header& header, void* descriptor, std::size_t size) {
  if (header.lane >= kLanes) {
    wrong_ = refused("it sends by a lane that is not there");
    return false;
  }
  Received& body = received_[header.first];
  if (body.refused) {
    received_.erase(header.first);
    return false;
  }
  if (body.descriptor != nullptr || body.begun) {
    wrong_ = refused("it sends a body twice");
    return false;
  }
  body.lanes = this;
  body.number = header.first;
  body.descriptor = descriptor;
  body.size = size;
  body.lane = header.lane;
  worker_.assumeLocked();
  if (body.wanted) worker_.needsSettling(own_);
  return true;
}

void Lanes::settle() {
  for (const auto& [direction, lane] : std::exchange(closing_, {})) {
    std::vector<Id> unwanted;
    for (const auto& [number, sent] : sent_) {
      if (direction == Direction::kOut && sent.header.lane == lane && !sent.done) {
        unwanted.push_back({number, /*sent=*/true});
      }
    }
    closeLane(direction, lane);
    ended_.insert(ended_.end(), unwanted.begin(), unwanted.end());
  }
  for (auto& [number, body] : received_) {
    if (body.wanted && body.descriptor != nullptr) fetch(body);
  }
}

void Lanes::fetch(Received& body) {
  void* const descriptor = std::exchange(body.descriptor, nullptr);
  if (body.size != body.into.size()) {
    wrong_ = refused("it sends a body of another size than it said");
    worker_.library().amDataRelease(worker_.get(), descriptor);
    return;
  }
  body.begun = true;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.recv_am = &Lanes::onReceived;
  param.user_data = &body;
  void* const request = worker_.library().amRecvDataNbx(worker_.get(), descriptor, body.into.data(),
                                                        body.into.size(), &param);
  if (request == nullptr || UCS_PTR_IS_ERR(request)) {
    onReceived(nullptr, UCS_PTR_STATUS(request), body.into.size(), &body);
  }
  worker_.assumeLocked();
  worker_.started();
}

void Lanes::onReceived(void* request, ucs_status_t status, std::size_t, void* user) {
  Received& body = *static_cast<Received*>(user);
  if (body.lanes == nullptr) return;
  Lanes& self = *body.lanes;
  if (request != nullptr) self.worker_.library().requestFree(request);
  body.done = true;
  if (status != UCS_OK) return self.failed(self.in_[body.lane], status);
  self.ended_.push_back({body.number, /*sent=*/false});
}

// That its endpoint is closed or broken needs no word here.
void Lanes::failed(const Lane& lane, ucs_status_t status) {
  if (!lane.endpoint->open() || lane.endpoint->error() != UCS_OK) return;
  wrong_ = {StatusCode::kIo,
            fmt::format("UCX can't move a message: {}", worker_.library().statusString(status))};
}

void Lanes::withdraw(Id id) {
  std::erase(ended_, id);
  if (id.sent) {
    const auto it = sent_.find(id.number);
    if (it == sent_.end()) return;
    if (!it->second.done) {
      const std::uint32_t lane = it->second.header.lane;
      closeLane(Direction::kOut, lane);
      tellClosed(Direction::kOut, lane);
    }
    sent_.erase(id.number);
    return;
  }
  const auto it = received_.find(id.number);
  if (it == received_.end()) return;
  Received& body = it->second;
  if (body.begun && !body.done) {
    const std::uint32_t lane = body.lane;
    closeLane(Direction::kIn, lane);
    tellClosed(Direction::kIn, lane);
  } else if (!body.begun) {
    body.wanted = false;
    return refuse(id.number);
  }
  received_.erase(id.number);
}

// Ends what is under way on it: of ours, the peer wants no more.
void Lanes::closeLane(Direction direction, std::uint32_t number) {
  Lane& lane = (direction == Direction::kOut ? out_ : in_)[number];
  if (!lane.endpoint->open()) return;
  if (direction == Direction::kIn) releaseArrived(number);
  lane.endpoint->close();
  const auto over = [&] {
    return std::ranges::all_of(sent_,
                               [&](const auto& entry) {
                                 const Sent& sent = entry.second;
                                 return direction == Direction::kIn || sent.header.lane != number ||
                                        sent.done;
                               }) &&
           std::ranges::all_of(received_, [&](const auto& entry) {
             const Received& body = entry.second;
             return direction == Direction::kOut || body.lane != number || !body.begun || body.done;
           });
  };
  worker_.assumeLocked();
  if (worker_.progressUntil(over, kWithdrawLimit)) return;
  // The network is stuck. UCX may still call back for these, so they stay in memory, for nobody.
  const auto abandon = [&](auto& bodies, const auto& unfinished) {
    worker_.assumeLocked();
    for (auto it = bodies.begin(); it != bodies.end();) {
      const auto body = it++;
      if (!unfinished(body->second)) continue;
      body->second.lanes = nullptr;
      auto node = bodies.extract(body);
      worker_.keep(std::make_shared<decltype(node)>(std::move(node)));
    }
  };
  if (direction == Direction::kOut) {
    abandon(sent_, [&](const Sent& sent) { return sent.header.lane == number && !sent.done; });
  } else {
    abandon(received_,
            [&](const Received& body) { return body.lane == number && body.begun && !body.done; });
  }
  wrong_ = {StatusCode::kIo,
            fmt::format("UCX has not taken back a message within {} s", kWithdrawLimit.count())};
}

// Nobody fetches what has arrived on it.
void Lanes::releaseArrived(std::uint32_t lane) {
  for (auto& [number, body] : received_) {
    if (body.lane != lane || body.descriptor == nullptr) continue;
    worker_.library().amDataRelease(worker_.get(), std::exchange(body.descriptor, nullptr));
  }
}

void Lanes::tellClosed(Direction direction, std::uint32_t lane) {
  tell_({.link = link_,
         .first = static_cast<std::uint64_t>(direction),
         .kind = PacketKind::kLaneClosed,
         .lane = lane});
}

void Lanes::onLaneClosed(const Header& header) {
  if (header.lane >= kLanes || header.first > 1) {
    wrong_ = refused("it closes a lane that is not there");
    return;
  }
  // What it sends by is what this side receives by.
  const auto direction = header.first == 1 ? Direction::kIn : Direction::kOut;
  closing_.emplace_back(direction, header.lane);
  worker_.assumeLocked();
  worker_.needsSettling(own_);
}

void Lanes::poll(std::vector<Id>& ended) {
  for (const Id& id : ended_) {
    if (id.sent) {
      sent_.erase(id.number);
    } else {
      received_.erase(id.number);
    }
  }
  ended.insert(ended.end(), ended_.begin(), ended_.end());
  ended_.clear();
}

Status Lanes::failure() const {
  if (!wrong_.ok()) return wrong_;
  for (const auto* lanes : {&out_, &in_}) {
    for (const Lane& lane : *lanes) {
      if (!lane.endpoint->open() || lane.endpoint->error() == UCS_OK) continue;
      return {StatusCode::kPeerLost,
              fmt::format("UCX: {}", worker_.library().statusString(lane.endpoint->error()))};
    }
  }
  return {};
}

bool Lanes::receiving() const {
  const auto live = [](const Lane& lane) {
    return lane.endpoint->open() && lane.endpoint->error() == UCS_OK;
  };
  return std::ranges::any_of(received_, [&](const auto& entry) {
    const Received& body = entry.second;
    if (!body.wanted || body.done) return false;
    return body.begun ? live(in_[body.lane]) : std::ranges::any_of(in_, live);
  });
}

void Lanes::closeAll() {
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    releaseArrived(lane);
    out_[lane].endpoint->close();
    in_[lane].endpoint->close();
  }
}

}  // namespace colla::transport::ucx
