#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "transport/conformance.h"
#include "transport/tcp/transport.h"

namespace colla::transport {
namespace {

using namespace std::chrono_literals;
using tcp::Security;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Change = std::function<void(Options&)>;

// All listen, then all learn the addresses; `change` may make one of them differ.
Transports makeTcp(int size, Security security, const Change& change = {}) {
  std::vector<std::unique_ptr<net::Listener>> listeners;
  std::vector<std::string> addresses;
  for (int i = 0; i < size; ++i) {
    auto listener = tcp::listen("127.0.0.1:0", conformanceOptions(i, size), security);
    EXPECT_TRUE(listener.ok()) << listener.status();
    if (!listener.ok()) return {};
    addresses.push_back((*listener)->address());
    listeners.push_back(*std::move(listener));
  }
  Transports peers;
  for (int i = 0; i < size; ++i) {
    Options options = conformanceOptions(i, size);
    for (std::size_t p = 0; p < addresses.size(); ++p) options.peers[p].address = addresses[p];
    if (change) change(options);
    auto peer = tcp::connect(options, std::move(listeners[static_cast<std::size_t>(i)]), security);
    EXPECT_TRUE(peer.ok()) << peer.status();
    if (peer.ok()) peers.push_back(*std::move(peer));
  }
  return peers;
}

INSTANTIATE_TEST_SUITE_P(
    Tcp, TransportConformance,
    ::testing::Values(
        ConformanceBackend{"tls", [](int size) { return makeTcp(size, Security::kTls); }},
        ConformanceBackend{"plain", [](int size) { return makeTcp(size, Security::kPlain); }},
        ConformanceBackend{"plain_striped",
                           [](int size) {
                             return makeTcp(size, Security::kPlain,
                                            [](Options& o) { o.connections = 3; });
                           }}),
    backendName);

// What both sides of a message get when peer 1, which connects, differs by `change`.
std::vector<Status> exchange(Security security, const Change& change) {
  const Transports peers = makeTcp(2, security, [&](Options& o) {
    if (o.self == 1) change(o);
  });
  if (peers.size() != 2) return std::vector<Status>(2);
  const auto attempt = [&](int self, Deadline deadline) {
    std::byte data{};
    Request request;
    if (self == 0) {
      peers[0]->recv(1, {}, {&data, 1}, request);
    } else {
      peers[1]->send(0, {}, {&data, 1}, request);
    }
    Request* const requests[] = {&request};
    return peers[static_cast<std::size_t>(self)]->wait(requests, deadline);
  };
  std::vector<Status> result(2);
  std::atomic<bool> over{false};
  std::jthread other([&] {
    result[1] = attempt(1, Deadline::after(30s));
    over = true;
  });
  do {
    result[0] = attempt(0, Deadline::after(50ms));
  } while (!over);
  return result;
}

TEST(TcpTest, AMixedJobIsRefusedWithBothValues) {
  for (const Security security : {Security::kTls, Security::kPlain}) {
    const auto result = exchange(security, [](Options& o) { o.identity.colla = "9.9.9"; });
    EXPECT_EQ(result[1].code(), StatusCode::kRefused) << result[1];
    EXPECT_EQ(result[1].peer(), 0);
    EXPECT_THAT(std::string(result[1].message()), HasSubstr("9.9.9"));
    EXPECT_THAT(std::string(result[1].message()), HasSubstr("0.1.0"));
    // Who refuses knows that nobody else will come.
    EXPECT_EQ(result[0].code(), StatusCode::kRefused) << result[0];
    EXPECT_EQ(result[0].peer(), 1);
    EXPECT_THAT(std::string(result[0].message()), HasSubstr("9.9.9"));
    EXPECT_THAT(std::string(result[0].message()), HasSubstr("0.1.0"));
  }
}

TEST(TcpTest, AnotherSecretIsNotLetIn) {
  for (const Security security : {Security::kTls, Security::kPlain}) {
    const auto result = exchange(security, [](Options& o) { o.secret = std::string(32, 'x'); });
    EXPECT_FALSE(result[1].ok());
    EXPECT_EQ(result[0].code(), StatusCode::kTimeout) << result[0];
  }
}

TEST(TcpTest, AnotherEpochIsNotLetIn) {
  const auto result = exchange(Security::kTls, [](Options& o) { o.epoch = 8; });
  EXPECT_EQ(result[1].code(), StatusCode::kRefused) << result[1];
  EXPECT_THAT(std::string(result[1].message()), HasSubstr("epoch"));
  // It is not the peer that this epoch waits for.
  EXPECT_EQ(result[0].code(), StatusCode::kTimeout) << result[0];
}

// Otherwise anybody could join, on this host too.
TEST(TcpTest, NobodyListensWithoutASecret) {
  Options options = conformanceOptions(0, 2);
  options.secret.clear();
  for (const Security security : {Security::kTls, Security::kPlain}) {
    const auto listener = tcp::listen("127.0.0.1:0", options, security);
    EXPECT_EQ(listener.status().code(), StatusCode::kRefused);
    EXPECT_THAT(
        toString(listener.status()),
        AllOf(HasSubstr(security == Security::kTls ? "transport tcp needs" : "tcp-plain needs"),
              HasSubstr("COLLA_SECRET_FILE")));
  }
}

}  // namespace
}  // namespace colla::transport
