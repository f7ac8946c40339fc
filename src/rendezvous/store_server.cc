#include "rendezvous/store_server.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/unique_fd.h"
#include "rendezvous/frame_channel.h"
#include "rendezvous/store_protocol.h"
#include "rendezvous/store_state.h"
#include "transport/net/listener.h"

namespace colla::rendezvous {
namespace {

namespace net = transport::net;

constexpr std::uint64_t kListenerId = 0;
constexpr std::uint64_t kWakeId = 1;
constexpr std::uint64_t kFirstId = 2;
constexpr int kFramesPerTurn = 64;  // Of one client, before others have their turn.
// Answers that a client does not read; the longest single one must fit.
constexpr std::size_t kMaxQueued = 4 * kMaxFrame;

}  // namespace

class StoreServer::Loop {
 public:
  explicit Loop(std::size_t maxConnections)
      : state_([this](auto client, auto id, auto answer, const Body& body) {
          deliver(client, id, answer, body);
        }),
        maxConnections_(maxConnections) {}
  ~Loop() {
    stop_.store(true);
    wake();
    if (thread_.joinable()) thread_.join();
  }

  Status start(const StoreServerOptions& options);
  const std::string& address() const { return listener_->address(); }
  std::size_t waiting() const { return waiting_.load(); }

 private:
  struct Client {
    FrameChannel channel;
    std::string name;
    std::uint32_t events = EPOLLIN;
  };
  using Id = StoreState::ClientId;

  void wake() {
    const std::uint64_t one = 1;
    if (wake_.valid()) (void)!write(wake_.get(), &one, sizeof(one));
  }
  Status watch(int fd, std::uint32_t events, Id id, int operation) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = id;
    if (epoll_ctl(epoll_.get(), operation, fd, &event) == 0) return {};
    return {StatusCode::kIo, fmt::format("epoll_ctl: {}", std::strerror(errno))};
  }
  void run();
  void admit();
  void serve(Id id);
  Status serveFrames(Id id, Client& client);
  void deliver(Id id, std::uint32_t request, Answer answer, Body body);
  void flushTouched();
  void drop(Id id, const Status& why);

  // Used by the loop's thread only, once it runs.
  std::unique_ptr<net::Listener> listener_;
  UniqueFd epoll_;
  UniqueFd wake_;
  StoreState state_;
  const std::size_t maxConnections_;
  std::map<Id, Client> clients_;
  Id nextId_ = kFirstId;
  std::set<Id> more_;     // May have frames that no event will tell of.
  std::set<Id> touched_;  // Have answers to be sent.

  std::atomic<bool> stop_{false};
  std::atomic<std::size_t> waiting_{0};
  std::atomic<std::size_t> connections_{0};
  std::thread thread_;
};

Status StoreServer::Loop::start(const StoreServerOptions& options) {
  net::HandshakeOptions handshake;
  handshake.hello.service = "store";
  handshake.hello.jobId = options.jobId;
  handshake.hello.name = options.name;
  handshake.hello.identity = options.identity;
  handshake.secret = options.secret;
  handshake.check = [this](const net::Hello&) -> Status {
    if (connections_.load() < maxConnections_) return {};
    return {StatusCode::kRefused, fmt::format("it has {} connections already", maxConnections_)};
  };
  COLLA_TRY_ASSIGN(const net::Address address, net::Address::parse(options.address));
  if (!address.isUnix() && !options.secret.empty()) {
    COLLA_TRY_ASSIGN(handshake.tls, net::TlsContext::create(options.secret, options.jobId));
  }
  COLLA_TRY_ASSIGN(listener_, net::Listener::open(options.address, std::move(handshake)));

  epoll_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  wake_ = UniqueFd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!epoll_.valid() || !wake_.valid()) {
    return {StatusCode::kIo, fmt::format("no epoll or eventfd: {}", std::strerror(errno))};
  }
  COLLA_TRY(watch(listener_->fd(), EPOLLIN, kListenerId, EPOLL_CTL_ADD));
  COLLA_TRY(watch(wake_.get(), EPOLLIN, kWakeId, EPOLL_CTL_ADD));
  thread_ = std::thread([this] { run(); });
  return {};
}

void StoreServer::Loop::run() {
  while (!stop_.load()) {
    std::array<epoll_event, 512> events;
    const int limit = more_.empty() ? -1 : 0;
    const int count = epoll_wait(epoll_.get(), events.data(), events.size(), limit);
    std::set<Id> ready = std::exchange(more_, {});
    for (int i = 0; i < count; ++i) {
      const Id id = events[static_cast<std::size_t>(i)].data.u64;
      if (id == kListenerId) {
        admit();
      } else if (id >= kFirstId) {
        ready.insert(id);
      }
    }
    for (const Id id : ready) serve(id);
    flushTouched();
    waiting_.store(state_.waiting());
    connections_.store(clients_.size());
  }
  clients_.clear();
}

void StoreServer::Loop::admit() {
  for (auto& connection : listener_->step()) {
    const Id id = nextId_++;
    const auto [it, added] = clients_.emplace(
        id, Client{FrameChannel(std::move(connection.stream), kMaxFrame), connection.hello.name});
    connections_.store(clients_.size());
    if (Status status = watch(it->second.channel.fd(), EPOLLIN, id, EPOLL_CTL_ADD); !status.ok()) {
      drop(id, status);
    } else {
      more_.insert(id);  // Requests may have come with the last words of the handshake.
    }
  }
}

void StoreServer::Loop::serve(Id id) {
  const auto it = clients_.find(id);
  if (it == clients_.end()) return;
  if (Status status = serveFrames(id, it->second); !status.ok()) return drop(id, status);
  touched_.insert(id);  // Room to write may be the news.
}

Status StoreServer::Loop::serveFrames(Id id, Client& client) {
  for (int i = 0; i < kFramesPerTurn; ++i) {
    COLLA_TRY_ASSIGN(const auto frame, client.channel.next());
    if (!frame) return {};
    COLLA_TRY_ASSIGN(const Request request, parseRequest(*frame));
    state_.apply(id, request);
  }
  more_.insert(id);
  return {};
}

void StoreServer::Loop::deliver(Id id, std::uint32_t request, Answer answer, Body body) {
  const auto it = clients_.find(id);
  if (it == clients_.end()) return;
  it->second.channel.queue(encodeResponseHead(request, answer), std::move(body));
  touched_.insert(id);
}

void StoreServer::Loop::flushTouched() {
  for (const Id id : std::exchange(touched_, {})) {
    const auto it = clients_.find(id);
    if (it == clients_.end()) continue;
    Client& client = it->second;
    Status status = client.channel.flush();
    if (status.ok() && client.channel.queued() > kMaxQueued) {
      status = {StatusCode::kRefused, "it does not read its answers"};
    }
    const std::uint32_t events = client.channel.queued() > 0 ? EPOLLIN | EPOLLOUT : EPOLLIN;
    if (status.ok() && events != client.events) {
      client.events = events;
      status = watch(client.channel.fd(), events, id, EPOLL_CTL_MOD);
    }
    if (!status.ok()) drop(id, status);
  }
}

void StoreServer::Loop::drop(Id id, const Status& why) {
  const auto it = clients_.find(id);
  // A client that goes is nothing special; one that talks nonsense is.
  if (why.code() != StatusCode::kPeerLost) {
    log::warn("the store ends its connection with {}: {}", it->second.name, why.message());
  }
  clients_.erase(it);
  more_.erase(id);
  state_.forget(id);
}

StoreServer::StoreServer(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}
StoreServer::~StoreServer() = default;

Result<std::unique_ptr<StoreServer>> StoreServer::start(const StoreServerOptions& options) {
  auto loop = std::make_unique<Loop>(options.maxConnections);
  COLLA_TRY(loop->start(options).withContext("the store cannot start"));
  return std::unique_ptr<StoreServer>(new StoreServer(std::move(loop)));
}

const std::string& StoreServer::address() const { return loop_->address(); }
std::size_t StoreServer::waiting() const { return loop_->waiting(); }

}  // namespace colla::rendezvous
