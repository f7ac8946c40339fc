#include <gtest/gtest.h>

#include "transport/conformance.h"
#include "transport/inproc/transport.h"

namespace colla::transport {
namespace {

Transports makeInproc(int size) {
  inproc::Hub hub(size);
  Transports peers;
  for (int i = 0; i < size; ++i) {
    auto peer = hub.connect(conformanceOptions(i, size));
    EXPECT_TRUE(peer.ok()) << peer.status();
    if (peer.ok()) peers.push_back(*std::move(peer));
  }
  return peers;
}

INSTANTIATE_TEST_SUITE_P(Inproc, TransportConformance,
                         ::testing::Values(ConformanceBackend{"inproc", makeInproc}), backendName);
INSTANTIATE_TEST_SUITE_P(Inproc, SharedMemoryConformance,
                         ::testing::Values(ConformanceBackend{"inproc", makeInproc}), backendName);

TEST(InprocTest, APlaceIsTakenOnce) {
  inproc::Hub hub(2);
  const auto first = hub.connect(conformanceOptions(0, 2));
  EXPECT_TRUE(first.ok());
  EXPECT_EQ(hub.connect(conformanceOptions(0, 2)).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(hub.connect(conformanceOptions(2, 3)).status().code(), StatusCode::kInvalidArgument);
}

// Nobody connected to it before it left.
TEST(InprocTest, APeerThatLeftBeforeAnyMessageIsLost) {
  inproc::Hub hub(2);
  auto stays = hub.connect(conformanceOptions(0, 2));
  auto leaves = hub.connect(conformanceOptions(1, 2));
  *leaves = nullptr;
  std::byte data{};
  Request request;
  (*stays)->recv(1, {}, {&data, 1}, request);
  Request* const requests[] = {&request};
  const Status status = (*stays)->wait(requests, Deadline::after(std::chrono::seconds(30)));
  EXPECT_EQ(toString(status), "peer lost: rank 1 on host b is gone");
  EXPECT_EQ(status.peer(), 1);
}

}  // namespace
}  // namespace colla::transport
