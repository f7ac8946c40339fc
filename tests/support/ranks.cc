#include "support/ranks.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <numeric>
#include <thread>

#include "collective/group_core.h"
#include "transport/inproc/transport.h"
#include "transport/listeners.h"
#include "transport/shm/transport.h"
#include "transport/tcp/transport.h"
#include "transport/ucx/transport.h"

namespace colla::test {
namespace {

// Passes everything on but shared memory.
class MessagesOnly final : public transport::Transport {
 public:
  MessagesOnly(std::unique_ptr<Transport> inner, Sent sent)
      : inner_(std::move(inner)), sent_(std::move(sent)) {}
  std::string_view name() const override { return inner_->name(); }
  int self() const override { return inner_->self(); }
  int size() const override { return inner_->size(); }
  void send(int peer, const transport::Envelope& envelope, std::span<const std::byte> data,
            transport::Request& request) override {
    if (sent_ != nullptr) sent_(self(), peer, data.size());
    inner_->send(peer, envelope, data, request);
  }
  void recv(int peer, const transport::Envelope& envelope, std::span<std::byte> data,
            transport::Request& request) override {
    inner_->recv(peer, envelope, data, request);
  }
  Status wait(std::span<transport::Request* const> requests, Deadline deadline) override {
    return inner_->wait(requests, deadline);
  }
  bool waitAny(std::span<transport::Request* const> requests, Deadline deadline) override {
    return inner_->waitAny(requests, deadline);
  }
  void abort(std::uint32_t group, const Status& why, std::span<const int> peers) override {
    inner_->abort(group, why, peers);
  }
  Status aborted(std::uint32_t group) override { return inner_->aborted(group); }
  Status abortedBy(int peer, std::uint32_t group) override {
    return inner_->abortedBy(peer, group);
  }

 private:
  const std::unique_ptr<Transport> inner_;
  const Sent sent_;
};

// Everybody's options, once everybody has a listener.
std::vector<transport::Options> optionsFor(int count) {
  transport::Options options;
  options.jobId = "test";
  options.secret = std::string(32, 's');
  for (int i = 0; i < count; ++i) options.peers.push_back({"rank " + std::to_string(i), ""});
  std::vector<transport::Options> all(count, options);
  for (int i = 0; i < count; ++i) all[i].self = i;
  return all;
}

using Transports = std::vector<std::unique_ptr<transport::Transport>>;

}  // namespace

Transports makeTransports(Wire wire, int count, const Sent& sent) {
  if (wire == Wire::kShm) {
    return connectAll(optionsFor(count), transport::shm::listen, transport::shm::connect);
  }
  if (wire == Wire::kTcp || wire == Wire::kTcpPlain) {
    namespace tcp = transport::tcp;
    const auto kind = wire == Wire::kTcp ? tcp::Security::kTls : tcp::Security::kPlain;
    return connectAll(
        optionsFor(count),
        [&](const auto& options) { return tcp::listen("127.0.0.1:0", options, kind); },
        [&](const auto& options, auto listener) {
          return tcp::connect(options, std::move(listener), kind);
        });
  }
  if (wire == Wire::kUcx) {
    // Otherwise UCX would go through the memory of this host.
    (void)setenv("UCX_TLS", "tcp", /*overwrite=*/0);
    return connectAll(
        optionsFor(count),
        [](const auto& options) { return transport::ucx::listen("127.0.0.1:0", options); },
        transport::ucx::connect);
  }
  transport::inproc::Hub hub(count);
  Transports transports;
  for (const auto& options : optionsFor(count)) {
    auto transport = hub.connect(options);
    EXPECT_TRUE(transport.ok()) << transport.status();
    transports.push_back(*std::move(transport));
    if (wire == Wire::kMessages) {
      transports.back() = std::make_unique<MessagesOnly>(std::move(transports.back()), sent);
    }
  }
  return transports;
}

std::string toString(Wire wire) {
  switch (wire) {
    case Wire::kShared:
      return "shared";
    case Wire::kMessages:
      return "messages";
    case Wire::kShm:
      return "shm";
    case Wire::kTcpPlain:
      return "tcp_plain";
    case Wire::kTcp:
      return "tcp";
    case Wire::kLevels:
      return "levels";
    case Wire::kScattered:
      return "scattered";
    case Wire::kUcx:
      return "ucx";
  }
  return "unknown";
}

namespace {

// Runs body(rank's group) in a thread for each rank; optionsOf(rank) has its transports.
void runThreads(int count, const std::function<GroupCore::Options(int)>& optionsOf,
                const std::function<void(Group&)>& body, std::chrono::milliseconds timeout) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      GroupCore::Options options = optionsOf(rank);
      options.id = 1;
      options.rank = rank;
      options.timeout = timeout;
      for (int i = 0; i < count; ++i) {
        options.members.push_back(i);
        options.names.push_back("rank " + std::to_string(i));
      }
      auto core = GroupCore::create(std::move(options), Deadline::after(timeout));
      ASSERT_TRUE(core.ok()) << core.status();
      Group group(*std::move(core));
      body(group);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

void runRanks(Wire wire, int count, const std::function<void(Group&)>& body,
              std::chrono::milliseconds timeout) {
  if (wire == Wire::kLevels || wire == Wire::kScattered) {
    const int hosts = (count + 1) / 2;
    std::vector<int> spread;
    for (int rank = 0; rank < count; ++rank) {
      spread.push_back(wire == Wire::kLevels ? rank / 2 : rank % hosts);
    }
    return runOnHosts(spread, {}, body, timeout);
  }
  const Transports transports = makeTransports(wire, count);
  const auto optionsOf = [&](int rank) {
    GroupCore::Options options;
    options.transport = transports[rank].get();
    return options;
  };
  runThreads(count, optionsOf, body, timeout);
}

void runOnHosts(const std::vector<int>& hosts, const HostWires& wires,
                const std::function<void(Group&)>& body, std::chrono::milliseconds timeout) {
  const int count = static_cast<int>(hosts.size());
  const Transports inside = makeTransports(wires.inside, count);
  const Transports between =
      makeTransports(wires.between, count, [&](int from, int to, std::size_t bytes) {
        if (wires.sent != nullptr && hosts[from] != hosts[to]) wires.sent(from, to, bytes);
      });
  const auto optionsOf = [&](int rank) {
    auto routes = std::make_shared<Routes>();
    routes->wire = between[rank].get();
    routes->host = inside[rank].get();
    routes->sharesMemory = true;
    for (const int host : hosts) routes->hosts.push_back("host " + std::to_string(host));
    std::vector<int> members(count);
    std::iota(members.begin(), members.end(), 0);
    GroupCore::Options options;
    options.transport = routes->between(members);
    options.routes = std::move(routes);
    return options;
  };
  runThreads(count, optionsOf, body, timeout);
}

}  // namespace colla::test
