#include "rendezvous/store.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <thread>

#include "base/metric_families.h"
#include "base/metrics.h"
#include "base/thread_annotations.h"
#include "base/unique_fd.h"
#include "rendezvous/frame_channel.h"
#include "transport/net/handshake.h"

namespace colla::rendezvous {

namespace net = transport::net;
using namespace std::chrono_literals;

// One connection that several threads use at once. One of those who wait polls and reads for all;
// the others sleep until they have an answer, or until nobody reads any more.
class StoreConnection {
 public:
  StoreConnection(std::string address, std::string server,
                  std::unique_ptr<transport::Stream> stream, UniqueFd wake)
      : address_(std::move(address)),
        server_(std::move(server)),
        wake_(std::move(wake)),
        fd_(stream->fd()),
        channel_(std::move(stream), kMaxFrame) {}

  const std::string& address() const { return address_; }

  // Sends a request, whose answers are kept until end().
  std::uint32_t begin(Request request) COLLA_EXCLUDES(mutex_);
  Result<Response> next(std::uint32_t id, Deadline deadline) COLLA_EXCLUDES(mutex_);
  // No more answers are wanted. `waitedFor`: the key that the server should stop to look after.
  void end(std::uint32_t id, const std::string* waitedFor) COLLA_EXCLUDES(mutex_);

 private:
  void send(const Request& request) COLLA_REQUIRES(mutex_);
  void exchange() COLLA_REQUIRES(mutex_);
  void pollOnce(Deadline deadline) COLLA_REQUIRES(mutex_);
  void lose(const Status& why) COLLA_REQUIRES(mutex_);

  const std::string address_;
  const std::string server_;
  const UniqueFd wake_;  // Rung when there is more to send than went out at once.
  const int fd_;
  Mutex mutex_;
  Condition changed_;
  FrameChannel channel_ COLLA_GUARDED_BY(mutex_);
  bool polling_ COLLA_GUARDED_BY(mutex_) = false;
  Status lost_ COLLA_GUARDED_BY(mutex_);
  std::uint32_t nextId_ COLLA_GUARDED_BY(mutex_) = 1;
  std::map<std::uint32_t, std::deque<Response>> answers_ COLLA_GUARDED_BY(mutex_);
};

void StoreConnection::send(const Request& request) {
  channel_.queue(encodeRequest(request));
  if (Status status = channel_.flush(); !status.ok()) return lose(status);
  if (channel_.queued() == 0 || !polling_) return;
  const std::uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof(one));
}

std::uint32_t StoreConnection::begin(Request request) {
  const MutexLock lock(mutex_);
  request.id = nextId_++;
  answers_[request.id];
  if (lost_.ok()) send(request);
  return request.id;
}

void StoreConnection::end(std::uint32_t id, const std::string* waitedFor) {
  const MutexLock lock(mutex_);
  answers_.erase(id);
  if (waitedFor == nullptr || !lost_.ok()) return;
  Request cancel;
  cancel.id = id;
  cancel.operation = Operation::kCancel;
  cancel.key = *waitedFor;
  send(cancel);
}

Result<Response> StoreConnection::next(std::uint32_t id, Deadline deadline) {
  const MutexLock lock(mutex_);
  auto& mine = answers_[id];
  while (mine.empty()) {
    if (!lost_.ok()) return lost_;
    if (!polling_) exchange();
    if (!mine.empty() || !lost_.ok()) continue;
    if (deadline.expired()) {
      return {StatusCode::kTimeout,
              fmt::format("{}, where the job's processes meet, did not answer in time", server_)};
    }
    if (!polling_) {
      pollOnce(deadline);
    } else {
      changed_.wait_for(mutex_, deadline.remaining(1h));
    }
  }
  Response response = std::move(mine.front());
  mine.pop_front();
  return response;
}

// Sends and takes whatever can go without waiting.
void StoreConnection::exchange() {
  if (Status status = channel_.flush(); !status.ok()) return lose(status);
  while (true) {
    auto frame = channel_.next();
    if (!frame.ok()) return lose(frame.status());
    if (!*frame) return;
    auto response = parseResponse(**frame);
    if (!response.ok()) return lose(response.status());
    const auto it = answers_.find(response->id);
    if (it == answers_.end()) continue;  // Came too late for whoever asked.
    it->second.push_back(*std::move(response));
    changed_.notify_all();
  }
}

void StoreConnection::pollOnce(Deadline deadline) {
  const short events = channel_.queued() > 0 ? POLLIN | POLLOUT : POLLIN;
  pollfd entries[] = {{fd_, events, 0}, {wake_.get(), POLLIN, 0}};
  const auto limit = std::chrono::ceil<std::chrono::milliseconds>(deadline.remaining(1h));
  polling_ = true;
  mutex_.unlock();
  (void)poll(entries, 2, static_cast<int>(limit.count()));
  mutex_.lock();
  polling_ = false;
  std::uint64_t rings = 0;
  (void)!read(wake_.get(), &rings, sizeof(rings));
  exchange();
  changed_.notify_all();  // Somebody else has to poll, if this thread has its answer.
}

void StoreConnection::lose(const Status& why) {
  if (!lost_.ok()) return;
  lost_ = {StatusCode::kPeerLost,
           fmt::format("{}, where the job's processes meet, is gone ({}): see its output", server_,
                       why.message())};
  changed_.notify_all();
}

Watch::~Watch() {
  if (connection_ != nullptr) connection_->end(id_, &pattern_);
}

Result<Entry> Watch::next(Deadline deadline) {
  while (true) {
    COLLA_TRY_ASSIGN(Response response, connection_->next(id_, deadline));
    if (response.answer == Answer::kFound) continue;  // That was all there was at first.
    if (response.answer != Answer::kChanged || response.entries.size() != 1) {
      return {StatusCode::kInternal, "the store gave a strange answer to a watch"};
    }
    return std::move(response.entries[0]);
  }
}

Store::Store(std::shared_ptr<StoreConnection> connection) : connection_(std::move(connection)) {}
Store::~Store() = default;
const std::string& Store::address() const { return connection_->address(); }

Result<std::unique_ptr<Store>> Store::connect(const StoreOptions& options, Deadline deadline) {
  net::HandshakeOptions handshake;
  handshake.hello.service = "store";
  handshake.hello.jobId = options.jobId;
  handshake.hello.name = options.name;
  handshake.hello.identity = options.identity;
  handshake.secret = options.secret;
  COLLA_TRY_ASSIGN(const net::Address address, net::Address::parse(options.address));
  if (!address.isUnix() && !options.secret.empty()) {
    COLLA_TRY_ASSIGN(handshake.tls, net::TlsContext::create(options.secret, options.jobId));
  }
  UniqueFd wake(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!wake.valid()) return {StatusCode::kIo, fmt::format("eventfd: {}", std::strerror(errno))};

  while (true) {
    auto connection = net::connectNow(options.address, handshake, deadline);
    if (connection.ok()) {
      return std::unique_ptr<Store>(new Store(std::make_shared<StoreConnection>(
          options.address, options.server, std::move(connection->stream), std::move(wake))));
    }
    const Status status = connection.status();
    const bool later =
        status.code() == StatusCode::kPeerLost || status.code() == StatusCode::kTimeout;
    if (!later) {
      return status.withContext(fmt::format("{} does not let this process in", options.server));
    }
    constexpr std::chrono::milliseconds kPause = 20ms;
    if (deadline.remaining() <= kPause) {
      return {StatusCode::kTimeout,
              address.isUnix()
                  ? fmt::format("{} is not there", options.server)
                  : fmt::format("{} is not there: {}", options.server, status.message())};
    }
    metrics::Counter(metrics::family("colla_connect_retries_total")).add();
    std::this_thread::sleep_for(kPause);
  }
}

Result<Response> Store::call(Request request, Deadline deadline) {
  // What the server would end the connection for is refused here.
  COLLA_TRY(checkRequest(request).withContext("store"));
  const std::string key = request.key;
  const std::uint32_t id = connection_->begin(std::move(request));
  auto response = connection_->next(id, deadline);
  connection_->end(id, response.ok() ? nullptr : &key);
  if (!response.ok()) return response.status();
  if (response->answer != Answer::kError) return response;
  const bool told = response->entries.size() == 1 && response->entries[0].value;
  return {StatusCode::kInvalidArgument,
          fmt::format("{}: the store refuses: {}", key,
                      told ? *response->entries[0].value : std::string("no reason given"))};
}

namespace {

Request make(Operation operation, const std::string& key) {
  Request request;
  request.operation = operation;
  request.key = key;
  return request;
}

Result<std::string> onlyValue(Result<Response> response, const std::string& key) {
  if (!response.ok()) return response.status();
  if (response->answer == Answer::kMissing) return {StatusCode::kNotFound, "no key " + key};
  if (response->entries.size() != 1 || !response->entries[0].value) {
    return {StatusCode::kInternal, "the store gave a strange answer for " + key};
  }
  return *std::move(response->entries[0].value);
}

}  // namespace

Status Store::set(const std::string& key, std::string value, Deadline deadline) {
  Request request = make(Operation::kSet, key);
  request.value = std::move(value);
  return call(std::move(request), deadline).status();
}

Result<std::string> Store::get(const std::string& key, Deadline deadline) {
  return onlyValue(call(make(Operation::kGet, key), deadline), key);
}

Result<std::string> Store::wait(const std::string& key, Deadline deadline) {
  return onlyValue(call(make(Operation::kWait, key), deadline), key);
}

Result<bool> Store::remove(const std::string& key, Deadline deadline) {
  COLLA_TRY_ASSIGN(const Response response, call(make(Operation::kRemove, key), deadline));
  return response.answer == Answer::kFound;
}

Result<std::int64_t> Store::add(const std::string& key, std::int64_t number, Deadline deadline) {
  Request request = make(Operation::kAdd, key);
  request.number = number;
  COLLA_TRY_ASSIGN(const std::string text, onlyValue(call(std::move(request), deadline), key));
  std::int64_t sum = 0;
  std::from_chars(text.data(), text.data() + text.size(), sum);
  return sum;
}

Result<Store::Comparison> Store::compareSet(const std::string& key,
                                            std::optional<std::string> expected, std::string value,
                                            Deadline deadline) {
  Request request = make(Operation::kCompareSet, key);
  request.expected = std::move(expected);
  request.value = std::move(value);
  COLLA_TRY_ASSIGN(Response response, call(std::move(request), deadline));
  if (response.answer == Answer::kFound) return Comparison{true, std::nullopt};
  if (response.entries.size() != 1) {
    return {StatusCode::kInternal, "the store gave a strange answer for " + key};
  }
  return Comparison{false, std::move(response.entries[0].value)};
}

Result<std::vector<Entry>> Store::list(const std::string& pattern, Deadline deadline) {
  COLLA_TRY_ASSIGN(Response response, call(make(Operation::kList, pattern), deadline));
  return std::move(response.entries);
}

Result<std::vector<Entry>> Store::waitCount(const std::string& pattern, std::int64_t count,
                                            Deadline deadline) {
  Request request = make(Operation::kWaitCount, pattern);
  request.number = count;
  COLLA_TRY_ASSIGN(Response response, call(std::move(request), deadline));
  return std::move(response.entries);
}

Result<Watch> Store::watch(const std::string& pattern) {
  Request request = make(Operation::kWatch, pattern);
  COLLA_TRY(checkRequest(request).withContext("store"));
  return Watch(connection_, pattern, connection_->begin(std::move(request)));
}

}  // namespace colla::rendezvous
