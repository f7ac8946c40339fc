#include "support/ranks.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "collective/group_core.h"
#include "transport/inproc/transport.h"
#include "transport/listeners.h"
#include "transport/shm/transport.h"
#include "transport/tcp/transport.h"

namespace colla::test {
namespace {

// Passes everything on but shared memory.
class MessagesOnly final : public transport::Transport {
 public:
  explicit MessagesOnly(std::unique_ptr<Transport> inner) : inner_(std::move(inner)) {}
  std::string_view name() const override { return inner_->name(); }
  int self() const override { return inner_->self(); }
  int size() const override { return inner_->size(); }
  void send(int peer, const transport::Envelope& envelope, std::span<const std::byte> data,
            transport::Request& request) override {
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
  std::unique_ptr<Transport> inner_;
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

Transports makeTransports(Wire wire, int count) {
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
  transport::inproc::Hub hub(count);
  Transports transports;
  for (const auto& options : optionsFor(count)) {
    auto transport = hub.connect(options);
    EXPECT_TRUE(transport.ok()) << transport.status();
    transports.push_back(*std::move(transport));
    if (wire == Wire::kMessages) {
      transports.back() = std::make_unique<MessagesOnly>(std::move(transports.back()));
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
  }
  return "unknown";
}

void runRanks(Wire wire, int count, const std::function<void(Group&)>& body,
              std::chrono::milliseconds timeout) {
  const Transports transports = makeTransports(wire, count);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      GroupCore::Options options;
      options.transport = transports[rank].get();
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

}  // namespace colla::test
