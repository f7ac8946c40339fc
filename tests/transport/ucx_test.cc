#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sstream>
#include <string>

#include "base/unique_fd.h"
#include "support/scratch.h"
#include "transport/conformance.h"
#include "transport/listeners.h"
#include "transport/net/address.h"
#include "transport/net/socket.h"
#include "transport/transports.h"
#include "transport/ucx/devices.h"
#include "transport/ucx/transport.h"

namespace colla::transport {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using Change = std::function<void(Options&)>;

struct sigaction actionOf(int signal) {
  struct sigaction action {};
  (void)sigaction(signal, nullptr, &action);
  return action;
}

// Before UCX is loaded.
const struct sigaction kSegvBefore = actionOf(SIGSEGV);
// UCX would see that the peers are threads of one process and go through its memory.
const bool kOverTcp = setenv("UCX_TLS", "tcp", /*overwrite=*/0) == 0;

Transports makeUcx(int size, const Change& change = {}) {
  std::vector<Options> options;
  for (int i = 0; i < size; ++i) options.push_back(conformanceOptions(i, size));
  return connectAll(
      options, [](const Options& own) { return ucx::listen("127.0.0.1:0", own); },
      [&](Options own, std::unique_ptr<net::Listener> listener) {
        if (change) change(own);
        return ucx::connect(own, std::move(listener));
      });
}

INSTANTIATE_TEST_SUITE_P(Ucx, TransportConformance,
                         ::testing::Values(ConformanceBackend{
                             "tcp", [](int size) { return makeUcx(size); }}),
                         backendName);

// A machine with RDMA devices, as far as its files say.
class Machine {
 public:
  void addPort(const std::string& device, int port, const std::string& state) {
    write("sys/class/infiniband/" + device + "/ports/" + std::to_string(port) + "/state", state);
  }
  void addVerbs(const std::string& name, const std::string& device, bool file) {
    write("sys/class/infiniband_verbs/" + name + "/ibdev", device + "\n");
    if (file) write("dev/infiniband/" + name, "");
  }
  std::vector<std::string> devices() const { return ucx::rdmaDevices(scratch_.path()); }

 private:
  void write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = scratch_.path() + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  Scratch scratch_;
};

// "auto" gives up encryption for RDMA, so it must be there for this process: a port without a
// cable, or a container that may not open the device, is no reason.
TEST(UcxDevicesTest, AreThoseThatThisProcessCanUse) {
  Machine machine;
  EXPECT_THAT(machine.devices(), ::testing::IsEmpty());
  machine.addPort("mlx5_0", 1, "4: ACTIVE\n");
  machine.addPort("mlx5_0", 2, "1: DOWN\n");
  machine.addPort("mlx5_1", 1, "2: INIT\n");
  machine.addPort("mlx5_2", 1, "4: ACTIVE\n");
  EXPECT_THAT(machine.devices(), ::testing::IsEmpty());
  machine.addVerbs("uverbs0", "mlx5_0", /*file=*/true);
  machine.addVerbs("uverbs1", "mlx5_1", true);
  machine.addVerbs("uverbs2", "mlx5_2", /*file=*/false);
  EXPECT_THAT(machine.devices(), ::testing::ElementsAre("mlx5_0:1"));
}

Envelope envelopeOf(std::uint32_t sequence) {
  Envelope envelope;
  envelope.sequence = sequence;
  return envelope;
}

// Peer 1 sends one message to peer 0; what both get.
std::vector<Status> deliver(const Transports& peers, std::size_t size, std::uint32_t sequence = 0,
                            std::chrono::milliseconds limit = 30s) {
  const Envelope envelope = envelopeOf(sequence);
  std::vector<Status> result(2);
  std::atomic<bool> over{false};
  std::jthread other([&] {
    Bytes data(size);
    Request request;
    peers[1]->send(0, envelope, data, request);
    Request* const requests[] = {&request};
    result[1] = peers[1]->wait(requests, Deadline::after(limit));
    over = true;
  });
  Bytes data(size);
  do {
    Request request;
    peers[0]->recv(1, envelope, data, request);
    Request* const requests[] = {&request};
    result[0] = peers[0]->wait(requests, Deadline::after(over ? 50ms : limit));
  } while (!over && !result[0].ok() && result[0].code() == StatusCode::kTimeout);
  return result;
}

TEST(UcxTest, AnotherSecretIsNotLetIn) {
  const Transports peers = makeUcx(2, [](Options& o) {
    if (o.self == 1) o.secret = std::string(32, 'x');
  });
  ASSERT_EQ(peers.size(), 2u);
  const auto result = deliver(peers, 1, 0, 200ms);
  EXPECT_FALSE(result[1].ok());
  EXPECT_EQ(result[0].code(), StatusCode::kTimeout) << result[0];
}

TEST(UcxTest, AnotherEpochIsNotLetIn) {
  const Transports peers = makeUcx(2, [](Options& o) {
    if (o.self == 1) o.epoch = 8;
  });
  ASSERT_EQ(peers.size(), 2u);
  const auto result = deliver(peers, 1, 0, 1s);
  EXPECT_EQ(result[1].code(), StatusCode::kRefused) << result[1];
  EXPECT_THAT(std::string(result[1].message()), HasSubstr("epoch"));
}

TEST(UcxTest, OneThatSpeaksTcpIsRefusedWithTheReason) {
  const TransportRow* const tcp = findTransport("tcp");
  std::vector<Options> options = {conformanceOptions(0, 2), conformanceOptions(1, 2)};
  const Transports peers = connectAll(
      options, [](const Options& own) { return ucx::listen("127.0.0.1:0", own); },
      [&](const Options& own, std::unique_ptr<net::Listener> listener) {
        return own.self == 0 ? ucx::connect(own, std::move(listener))
                             : tcp->connect(own, std::move(listener));
      });
  ASSERT_EQ(peers.size(), 2u);
  const auto result = deliver(peers, 1, 0, 2s);
  EXPECT_EQ(result[1].code(), StatusCode::kRefused) << result[1];
  EXPECT_THAT(std::string(result[1].message()), HasSubstr("ucx"));
}

TEST(UcxTest, NobodyListensWithoutASecret) {
  Options options = conformanceOptions(0, 2);
  options.secret.clear();
  const auto listener = ucx::listen("127.0.0.1:0", options);
  EXPECT_EQ(listener.status().code(), StatusCode::kRefused);
  EXPECT_THAT(toString(listener.status()), HasSubstr("transport ucx needs the job's secret"));
}

// Ports of this process that listen on TCP: the door's, and those that UCX opens by itself.
std::set<std::uint16_t> listeningPorts() {
  std::set<std::string> mine;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(entry.path(), error);
    if (target.starts_with("socket:[")) mine.insert(target.substr(8, target.size() - 9));
  }
  std::set<std::uint16_t> ports;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string slot, local, remote, state, skip, inode;
      words >> slot >> local >> remote >> state;
      for (int i = 0; i < 5; ++i) words >> skip;
      words >> inode;
      if (state != "0A" || !mine.contains(inode)) continue;
      ports.insert(
          static_cast<std::uint16_t>(std::stoul(local.substr(local.rfind(':') + 1), nullptr, 16)));
    }
  }
  return ports;
}

// A stranger finds UCX's own ports as well. Nothing it says there gets an answer or disturbs.
TEST(UcxTest, StrangersAtItsPortsGetNothing) {
  const Transports peers = makeUcx(2);
  ASSERT_EQ(peers.size(), 2u);
  for (const Status& status : deliver(peers, 1)) ASSERT_EQ(toString(status), "ok");
  const auto ports = listeningPorts();
  ASSERT_GE(ports.size(), 3u);  // Two doors, and UCX's.

  std::mt19937 random(1);
  std::vector<UniqueFd> strangers;
  std::vector<char> garbage(4096);
  for (const std::uint16_t port : ports) {
    for (int kind = 0; kind < 12; ++kind) {
      const auto address = net::Address::parse(net::withPort("127.0.0.1", port));
      ASSERT_TRUE(address.ok());
      auto fd = net::startConnect(*address);
      ASSERT_TRUE(fd.ok()) << fd.status();
      pollfd entry{fd->get(), POLLOUT, 0};
      ASSERT_GE(poll(&entry, 1, 10'000), 0);
      if (kind > 0) {  // The first says nothing.
        for (char& byte : garbage) byte = static_cast<char>(random() >> 8);
        (void)!::send(fd->get(), garbage.data(), garbage.size() >> (kind % 6), MSG_NOSIGNAL);
      }
      strangers.push_back(*std::move(fd));
    }
  }
  for (std::uint32_t i = 1; i < 30; ++i) {
    for (const Status& status : deliver(peers, i % 2 == 0 ? 100 : 300'000, i)) {
      ASSERT_EQ(toString(status), "ok") << i;
    }
  }
  for (const UniqueFd& stranger : strangers) {
    std::array<char, 64> answer;
    EXPECT_LE(recv(stranger.get(), answer.data(), answer.size(), MSG_DONTWAIT), 0);
  }
}

TEST(UcxTest, LeavesTheProgramsSignalsAlone) {
  ASSERT_EQ(toString(ucx::usable()), "ok");
  EXPECT_EQ(actionOf(SIGSEGV).sa_handler, kSegvBefore.sa_handler);
}

// Peer 0 computes for longer than a peer that left has to end: what was sent to it before is there.
TEST(UcxTest, WhatHasArrivedIsReadHoweverLate) {
  constexpr std::uint32_t kCount = 6;
  Transports peers = makeUcx(2);
  ASSERT_EQ(peers.size(), 2u);
  for (const Status& status : deliver(peers, 1)) ASSERT_EQ(toString(status), "ok");
  const Bytes out(64 << 10, std::byte{7});
  for (std::uint32_t i = 1; i <= kCount; ++i) {
    Request sent;
    peers[1]->send(0, envelopeOf(i), out, sent);
    Request* const requests[] = {&sent};
    ASSERT_EQ(toString(peers[1]->wait(requests, Deadline::after(30s))), "ok") << i;
  }
  peers[1].reset();
  for (int look = 0; look < 3; ++look) {
    EXPECT_EQ(toString(peers[0]->aborted(9)), "ok");
    std::this_thread::sleep_for(1200ms);
  }
  for (std::uint32_t i = 1; i <= kCount; ++i) {
    Bytes in(out.size());
    Request received;
    peers[0]->recv(1, envelopeOf(i), in, received);
    Request* const requests[] = {&received};
    ASSERT_EQ(toString(peers[0]->wait(requests, Deadline::after(30s))), "ok") << i;
    EXPECT_TRUE(in == out);
  }
}

// One body after another is withdrawn in the middle, until nothing is left to move them beside the
// stream: then they go through it.
TEST(UcxTest, LargeMessagesArriveAfterManyWereWithdrawn) {
  constexpr std::size_t kBody = 32 << 20;
  const Transports peers = makeUcx(2);
  ASSERT_EQ(peers.size(), 2u);
  for (const Status& status : deliver(peers, kBody)) ASSERT_EQ(toString(status), "ok");
  for (std::uint32_t i = 1; i < 8; ++i) {
    const Envelope envelope = envelopeOf(i);
    Bytes in(kBody);
    Request received;
    peers[0]->recv(1, envelope, in, received);
    {
      const Bytes out(kBody);
      Request sent;
      peers[1]->send(0, envelope, out, sent);
      Request* const requests[] = {&sent};
      EXPECT_EQ(peers[1]->wait(requests, Deadline::after(50ms)).code(), StatusCode::kTimeout);
    }
    Request* const requests[] = {&received};
    EXPECT_EQ(peers[0]->wait(requests, Deadline::after(50ms)).code(), StatusCode::kTimeout);
    for (const Status& status : deliver(peers, 1000, 100 + i)) ASSERT_EQ(toString(status), "ok");
    for (const Status& status : deliver(peers, kBody, 200 + i)) ASSERT_EQ(toString(status), "ok");
  }
}

}  // namespace
}  // namespace colla::transport
