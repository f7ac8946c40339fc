// What every transport backend must do. A backend takes part in a few lines:
//
//   INSTANTIATE_TEST_SUITE_P(Inproc, TransportConformance,
//                            ::testing::Values(ConformanceBackend{"inproc", makeInproc}),
//                            backendName);
//
// The peers are threads of the test process, each with a transport of its own.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "transport/options.h"
#include "transport/transport.h"

namespace colla::transport {

using Transports = std::vector<std::unique_ptr<Transport>>;
using Bytes = std::vector<std::byte>;

struct ConformanceBackend {
  std::string name;
  // `size` transports of one job, by peer; made of conformanceOptions().
  std::function<Transports(int size)> make;
};

inline void PrintTo(const ConformanceBackend& backend, std::ostream* out) { *out << backend.name; }

inline std::string backendName(const ::testing::TestParamInfo<ConformanceBackend>& info) {
  return info.param.name;
}

// Options of peer `self`: names like "rank 2 on host c", and a short spin.
inline Options conformanceOptions(int self, int size) {
  Options options;
  options.self = self;
  for (int i = 0; i < size; ++i) {
    options.peers.push_back(
        {"rank " + std::to_string(i) + " on host " + static_cast<char>('a' + i), ""});
  }
  options.epoch = 7;
  options.jobId = "conformance";
  options.secret = std::string(32, 's');
  options.identity = {"0.1.0", "", "cpu", "slices=4\n"};
  return options;
}

class TransportConformance : public ::testing::TestWithParam<ConformanceBackend> {
 protected:
  // Long enough for a loaded machine; a test that waits for it has failed.
  static Deadline patience() { return Deadline::after(std::chrono::seconds(30)); }

  void start(int size) {
    peers_ = GetParam().make(size);
    ASSERT_EQ(peers_.size(), static_cast<std::size_t>(size));
    for (const auto& peer : peers_) ASSERT_NE(peer, nullptr);
  }
  Transport& peer(int index) { return *peers_[static_cast<std::size_t>(index)]; }
  // What the others see of a process that ends.
  void leave(int index) { peers_[static_cast<std::size_t>(index)].reset(); }

  // `body(peer)` for all peers at once.
  void run(const std::function<void(int)>& body) {
    std::vector<std::jthread> threads;
    for (int i = 0; i < static_cast<int>(peers_.size()); ++i) threads.emplace_back(body, i);
  }

  static Bytes pattern(std::size_t size, unsigned seed) {
    Bytes bytes(size);
    for (std::size_t i = 0; i < size; ++i)
      bytes[i] = static_cast<std::byte>(i * 7 + i / 251 + seed);
    return bytes;
  }
  static Envelope envelope(std::uint32_t group, std::uint32_t sequence, std::uint32_t step = 0) {
    Envelope e;
    e.group = group;
    e.sequence = sequence;
    e.step = step;
    e.call.operation = 1;
    e.call.count = 5;
    return e;
  }
  static Status wait(Transport& transport, std::vector<Request*> requests,
                     Deadline deadline = patience()) {
    return transport.wait(requests, deadline);
  }
  // Blocking send and receive of a single message.
  static Status send(Transport& t, int to, const Envelope& e, const Bytes& data,
                     Deadline deadline = patience()) {
    Request request;
    t.send(to, e, data, request);
    return wait(t, {&request}, deadline);
  }
  static Status recv(Transport& t, int from, const Envelope& e, Bytes& data,
                     Deadline deadline = patience()) {
    Request request;
    t.recv(from, e, data, request);
    return wait(t, {&request}, deadline);
  }
  // Connects two peers, so that both know when the other leaves.
  void greet(int a, int b) {
    Bytes in(1);
    Request sent;
    Request received;
    const Bytes out = pattern(1, 1);
    peer(a).send(b, envelope(999, 0), out, sent);
    peer(b).recv(a, envelope(999, 0), in, received);
    std::jthread other([&] { EXPECT_TRUE(wait(peer(b), {&received}).ok()); });
    EXPECT_TRUE(wait(peer(a), {&sent}).ok());
  }

  Transports peers_;
};

// For the backends that share memory, beside the other.
class SharedMemoryConformance : public TransportConformance {};

}  // namespace colla::transport
