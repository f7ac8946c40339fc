// What works: addresses, streams of every kind, handshakes between processes that belong together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <random>

#include "net_fixture.h"
#include "support/network.h"
#include "transport/net/address.h"
#include "transport/net/keys.h"

namespace colla::transport::net {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::vector<std::byte> randomBytes(std::size_t size, unsigned seed) {
  std::mt19937 engine(seed);
  std::vector<std::byte> bytes(size);
  for (auto& b : bytes) b = static_cast<std::byte>(engine());
  return bytes;
}

TEST(AddressTest, TextAndBack) {
  for (const char* text : {"127.0.0.1:4000", "[::1]:80", "unix:@colla-test"}) {
    const auto address = Address::parse(text);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(address->text(), text);
    EXPECT_TRUE(address->isLocal());
  }
  EXPECT_FALSE(Address::parse("192.0.2.1:1")->isLocal());
  EXPECT_EQ(Address::parse("localhost:5")->host().empty(), false);
  for (const char* text : {"", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "1.2.3.4:65536", ":80",
                           "::1:80", "unix:@", "unix:/tmp/x"}) {
    EXPECT_FALSE(Address::parse(text).ok()) << text;
  }
  EXPECT_FALSE(Address::parse("unix:@" + std::string(200, 'x')).ok());
}

TEST(AddressTest, InterfacesAndRoutes) {
  EXPECT_EQ(*interfaceAddress("lo"), "127.0.0.1");
  EXPECT_EQ(*interfaceAddress("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(*interfaceAddress("127.0.0.9"), "127.0.0.9");
  EXPECT_THAT(toString(interfaceAddress("nosuch0").status()), HasSubstr("\"nosuch0\" is neither"));
  EXPECT_FALSE(interfaceAddress("192.0.2.77").ok());
  EXPECT_EQ(*addressTowards("127.0.0.1:9"), "127.0.0.1");
  EXPECT_EQ(*addressTowards("unix:@any"), "127.0.0.1");
}

TEST(AddressTest, ListenersAreBoundToOneInterface) {
  const auto wildcard = listenOn(*Address::parse("0.0.0.0:0"));
  EXPECT_THAT(toString(wildcard.status()), HasSubstr("every interface"));
  for (const char* address : {"192.0.2.1:0", "127.0.0.1:0"}) {
    const auto open = Listener::open(address, optionsOf(Mode::kUnix, 0, "rank 0"));
    EXPECT_EQ(open.status().code(), StatusCode::kRefused);
    EXPECT_THAT(toString(open.status()), HasSubstr("COLLA_SECRET_FILE"));
  }
}

// In a network namespace of its own, which has two ports.
TEST(AddressTest, NoFreePortIsSaid) {
  const auto said = test::inOwnNetwork([]() -> std::string {
    const UniqueFd any(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq loop{};
    std::strcpy(loop.ifr_name, "lo");
    loop.ifr_flags = IFF_UP;
    if (ioctl(any.get(), SIOCSIFFLAGS, &loop) != 0) return "no right to set lo up";
    std::ofstream range("/proc/sys/net/ipv4/ip_local_port_range");
    if (!(range << "50000 50001" << std::flush)) return "no right to set the range of ports";
    const Address address = *Address::parse("127.0.0.1:0");
    const auto first = listenOn(address);
    const auto second = listenOn(address);
    return first.ok() ? toString(listenOn(address).status()) : "none at all";
  });
  if (!said || said->starts_with("no right")) GTEST_SKIP() << said.value_or("no right to make one");
  EXPECT_THAT(*said, HasSubstr("no free port on 127.0.0.1"));
}

TEST(KeysTest, EveryInputMatters) {
  const Key key = deriveKey("secret", "job", "label");
  EXPECT_EQ(key, deriveKey("secret", "job", "label"));
  EXPECT_NE(key, deriveKey("Secret", "job", "label"));
  EXPECT_NE(key, deriveKey("secret", "jo", "label"));
  EXPECT_NE(key, deriveKey("secret", "job", "abel"));
  const auto ab = std::as_bytes(std::span("ab", 2));
  EXPECT_NE(authenticate(key, {ab}), authenticate(key, {ab.first(1), ab.last(1)}));
}

// RFC 5869, test case 1, its first 32 bytes.
TEST(KeysTest, IsHkdfSha256) {
  const std::string secret(22, '\x0b');
  std::string salt, info;
  for (char c = 0; c <= 0x0c; ++c) salt += c;
  for (int c = 0xf0; c <= 0xf9; ++c) info += static_cast<char>(c);
  const Key key = deriveKey(secret, salt, info);
  const std::vector<int> expected = {0x3c, 0xb2, 0x5f, 0x25, 0xfa, 0xac, 0xd5, 0x7a,
                                     0x90, 0x43, 0x4f, 0x64, 0xd0, 0x36, 0x2f, 0x2a};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(std::to_integer<int>(key[i]), expected[i]) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, NetModeTest,
                         ::testing::Values(Mode::kUnix, Mode::kUnixSecret, Mode::kPlain,
                                           Mode::kTls),
                         modeName);

TEST_P(NetModeTest, BothSidesLearnWhoIsThere) {
  listen(GetParam());
  auto options = optionsOf(GetParam(), 1, "rank 1 on host b");
  options.hello.stripe = 3;
  Client& client = connect(options);
  ASSERT_TRUE(pump([&] { return client.settled() && accepted_.size() == 1; }));
  ASSERT_TRUE(client.ok()) << *client.outcome;
  EXPECT_EQ(client.theirs.name, "rank 0 on host a");
  EXPECT_EQ(client.theirs.peer, 0);
  EXPECT_EQ(accepted_[0].hello.name, "rank 1 on host b");
  EXPECT_EQ(accepted_[0].hello.peer, 1);
  EXPECT_EQ(accepted_[0].hello.stripe, 3U);
  EXPECT_EQ(listener_->refusalsLogged(), 0U);
}

TEST_P(NetModeTest, CarriesBytesBothWaysAndTellsTheEnd) {
  listen(GetParam());
  Client& client = connect(optionsOf(GetParam(), 1, "rank 1 on host b"));
  const auto there = randomBytes(3'000'001, 1);
  const auto back = randomBytes(2'000'003, 2);
  std::vector<std::byte> gotThere(there.size()), gotBack(back.size());
  std::size_t sentThere = 0, sentBack = 0, readThere = 0, readBack = 0;

  const auto send = [](Stream& stream, const auto& data, std::size_t& done) {
    const auto count = stream.write(std::span(data).subspan(done));
    ASSERT_TRUE(count.ok()) << count.status();
    done += *count;
  };
  const auto receive = [](Stream& stream, auto& data, std::size_t& done) {
    const auto count = stream.read(std::span(data).subspan(done));
    ASSERT_TRUE(count.ok()) << count.status();
    done += *count;
  };
  // The client writes as soon as its own side is done: nothing of it may be taken for handshake.
  ASSERT_TRUE(pump([&] {
    if (client.ok()) {
      send(*client.stream, there, sentThere);
      receive(*client.stream, gotBack, readBack);
    }
    if (!accepted_.empty()) {
      send(*accepted_[0].stream, back, sentBack);
      receive(*accepted_[0].stream, gotThere, readThere);
    }
    return HasFailure() || (readThere == there.size() && readBack == back.size());
  }));
  EXPECT_TRUE(gotThere == there);
  EXPECT_TRUE(gotBack == back);

  client.stream.reset();
  std::byte more;
  Status end;
  ASSERT_TRUE(pump([&] {
    end = accepted_[0].stream->read({&more, 1}).status();
    return !end.ok();
  }));
  EXPECT_EQ(end.code(), StatusCode::kPeerLost);
  ASSERT_TRUE(pump([&] {  // And no SIGPIPE.
    end = accepted_[0].stream->write({&more, 1}).status();
    return !end.ok();
  }));
  EXPECT_EQ(end.code(), StatusCode::kPeerLost);
}

TEST_P(NetModeTest, NobodyListens) {
  const std::string address =
      GetParam() == Mode::kUnix ? "unix:@colla-nobody-is-here" : "127.0.0.1:1";
  const auto connection =
      connectNow(address, optionsOf(GetParam(), 1, "rank 1"), Deadline::after(kLimit));
  EXPECT_EQ(connection.status().code(), StatusCode::kPeerLost) << connection.status();
  EXPECT_THAT(toString(connection.status()), HasSubstr(address));
}

class TlsTest : public NetTest {
 protected:
  void SetUp() override {
    auto options = optionsOf(Mode::kTls, 0, "rank 0");
    options.tls = *TlsContext::create(kSecret, options.hello.jobId, /*recordsPerKey=*/3);
    listen("127.0.0.1:0", options);
    options.hello.name = "rank 1";
    client_ = &connect(options);
    ASSERT_TRUE(pump([&] { return client_->settled() && accepted_.size() == 1; }));
    ASSERT_TRUE(client_->ok()) << *client_->outcome;
  }
  Client* client_ = nullptr;
};

TEST_F(TlsTest, MovesOnToTheNextKey) {
  const auto data = randomBytes(1'000'000, 3);
  std::vector<std::byte> got(data.size());
  std::size_t sent = 0, received = 0;
  ASSERT_TRUE(pump([&] {
    const auto written = client_->stream->write(std::span(data).subspan(sent));
    const auto read = accepted_[0].stream->read(std::span(got).subspan(received));
    EXPECT_TRUE(written.ok() && read.ok());
    sent += *written;
    received += *read;
    return HasFailure() || received == data.size();
  }));
  EXPECT_TRUE(got == data);
  EXPECT_GT(dynamic_cast<TlsStream&>(*client_->stream).keyUpdates(), 15U);
}

// A sealed record must go out as it is: other bytes in its place are an error, never sent.
TEST_F(TlsTest, RefusesOtherBytesAfterAPartialWrite) {
  const auto data = randomBytes(64 * 1024, 4);
  std::size_t offset = 0;
  for (bool full = false; !full;) {
    const auto offered = std::span(data).subspan(offset);
    const auto written = client_->stream->write(offered);
    ASSERT_TRUE(written.ok()) << written.status();
    full = *written < offered.size();
    offset = (offset + *written) % data.size();
  }
  const auto same = client_->stream->write(std::span(data).subspan(offset));
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ(*same, 0U);
  const auto other = randomBytes(64 * 1024, 5);
  const auto written = client_->stream->write(other);
  EXPECT_THAT(toString(written.status()), HasSubstr("withdrawn"));
  EXPECT_FALSE(client_->stream->write(data).ok());
}

}  // namespace
}  // namespace colla::transport::net
