// A store that ends, clients that are not clients: the others go on, or are told at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <random>
#include <thread>

#include "base/bytes.h"
#include "rendezvous/frame_channel.h"
#include "rendezvous/membership.h"
#include "store_fixture.h"
#include "transport/net/handshake.h"
#include "transport/net/listener.h"
#include "transport/net/socket.h"

namespace colla::rendezvous {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
namespace net = transport::net;

TEST_F(StoreTest, WrongSecretIsRefused) {
  for (const char* address : {"127.0.0.1:0", ""}) {
    serve(*address == '\0' ? uniqueAddress() : address, kSecret);
    auto wrong = options_;
    wrong.secret = "another secret, of the same size";
    const auto store = Store::connect(wrong, soon());
    EXPECT_EQ(store.status().code(), StatusCode::kRefused) << store.status();
    EXPECT_THAT(toString(store.status()), HasSubstr("another secret"));
    EXPECT_TRUE(connect()->set("k", "v", soon()).ok());
  }
}

TEST_F(StoreTest, MixedVersionsAreRefusedWithBothValues) {
  options_.identity.colla = "0.2.0";
  const auto store = Store::connect(options_, soon());
  EXPECT_THAT(toString(store.status()), HasSubstr("the store runs colla none, this process 0.2.0"));
}

TEST_F(StoreTest, RefusesToListenWithoutSecret) {
  for (const char* address : {"192.0.2.1:0", "127.0.0.1:0"}) {
    StoreServerOptions options;
    options.address = address;
    const auto server = StoreServer::start(options);
    EXPECT_EQ(server.status().code(), StatusCode::kRefused) << server.status();
  }
}

TEST_F(StoreTest, ConnectionsAreLimited) {
  StoreServerOptions options;
  options.address = uniqueAddress();
  options.maxConnections = 2;
  auto server = StoreServer::start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  StoreOptions client;
  client.address = options.address;
  const auto first = Store::connect(client, soon());
  ASSERT_TRUE((*first)->set("k", "v", soon()).ok());
  auto second = Store::connect(client, soon());
  ASSERT_TRUE((*second)->set("k", "v", soon()).ok());
  const auto third = Store::connect(client, soon());
  EXPECT_THAT(toString(third.status()), HasSubstr("2 connections already"));
  second = Status(StatusCode::kCancelled, "closed");
  // Once the server has seen it go, there is room again.
  const Deadline deadline = soon();
  auto fourth = Store::connect(client, soon());
  while (!fourth.ok() && !deadline.expired()) fourth = Store::connect(client, soon());
  EXPECT_TRUE(fourth.ok()) << fourth.status();
}

class StrangerTest : public StoreTest {
 protected:
  void expectWorking() { EXPECT_TRUE(connect()->set("k", "v", soon()).ok()); }
  // An authenticated connection for bytes that no Store would send.
  std::unique_ptr<transport::Stream> insider() {
    net::HandshakeOptions options;
    options.hello.service = "store";
    options.hello.jobId = options_.jobId;
    auto connection = net::connectNow(options_.address, options, soon());
    EXPECT_TRUE(connection.ok()) << connection.status();
    return std::move(connection->stream);
  }
  static bool closedSoon(transport::Stream& stream) {
    const Deadline deadline = soon();
    std::byte waste[256];
    while (stream.read(waste).ok()) {
      if (!net::waitFor(stream.fd(), POLLIN, deadline).ok()) return false;
    }
    return true;
  }
};

TEST_F(StrangerTest, RandomBytesBeforeAndAfterTheHandshake) {
  std::mt19937 engine(3);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::byte> noise(2000);
    for (auto& b : noise) b = static_cast<std::byte>(engine());
    const auto raw = net::startConnect(*net::Address::parse(options_.address));
    ASSERT_TRUE(raw.ok());
    (void)send(raw->get(), noise.data(), noise.size(), MSG_NOSIGNAL);

    const auto stream = insider();
    ASSERT_TRUE(stream->write(noise).ok());
    // Also where the first four bytes are a length that is allowed.
    noise[2] = noise[3] = std::byte{0};
    const auto other = insider();
    ASSERT_TRUE(other->write(noise).ok());
    shutdown(other->fd(), SHUT_WR);
    EXPECT_TRUE(closedSoon(*stream) && closedSoon(*other));
  }
  expectWorking();
}

TEST_F(StrangerTest, OversizedFrame) {
  const auto stream = insider();
  ByteWriter writer;
  writer.number(static_cast<std::uint32_t>(kMaxFrame + 1));
  ASSERT_TRUE(stream->write(writer.bytes()).ok());
  EXPECT_TRUE(closedSoon(*stream));
  expectWorking();
}

// A client that asks and asks and never reads costs the server a limited amount of memory.
TEST_F(StrangerTest, ClientThatDoesNotReadIsDropped) {
  ASSERT_TRUE(connect()->set("big", std::string(kMaxValue, 'x'), soon()).ok());
  FrameChannel channel(insider(), kMaxFrame);
  for (std::uint32_t i = 0; i < 8; ++i) {
    Request request;
    request.id = i;
    request.key = "big";
    channel.queue(encodeRequest(request));
  }
  ASSERT_TRUE(channel.flush().ok());
  // Only now it reads: the rest never comes.
  const Deadline deadline = soon();
  int frames = 0;
  while (true) {
    const auto frame = channel.next();
    if (!frame.ok()) break;
    if (*frame) {
      ++frames;
    } else {
      ASSERT_TRUE(net::waitFor(channel.fd(), POLLIN, deadline).ok());
    }
  }
  EXPECT_LT(frames, 8);
  expectWorking();
}

TEST_F(StoreTest, EndOfTheServerEndsWaitsAtOnce) {
  const auto store = connect();
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      const auto value = store->wait("never" + std::to_string(i), Deadline::never());
      EXPECT_EQ(value.status().code(), StatusCode::kPeerLost) << value.status();
    });
  }
  EXPECT_TRUE(waitForWaiters(8));
  server_.reset();
  for (auto& thread : threads) thread.join();
  const Status later = store->set("k", "v", Deadline::never());
  EXPECT_EQ(later.code(), StatusCode::kPeerLost);
  EXPECT_THAT(toString(later), HasSubstr("the store, where the job's processes meet, is gone ("));
}

// A server that says that there is a list of survivors and does not show it.
TEST_F(StoreTest, AnAnswerWithoutSurvivorsIsAnError) {
  net::HandshakeOptions handshake;
  handshake.hello.service = "store";
  handshake.hello.jobId = options_.jobId;
  options_.address = uniqueAddress();
  auto listener = net::Listener::open(options_.address, handshake);
  ASSERT_TRUE(listener.ok()) << listener.status();
  std::thread strange([&] {
    std::vector<net::Connection> came;
    while (came.empty() && net::waitFor((*listener)->fd(), POLLIN, soon()).ok()) {
      came = (*listener)->step();
    }
    ASSERT_EQ(came.size(), 1U);
    FrameChannel channel(std::move(came[0].stream), kMaxFrame);
    auto frame = channel.next();
    while (frame.ok() && !*frame && net::waitFor(channel.fd(), POLLIN, soon()).ok()) {
      frame = channel.next();
    }
    ASSERT_TRUE(frame.ok() && *frame);
    const auto request = parseRequest(**frame);
    ASSERT_TRUE(request.ok()) << request.status();
    const Entry nothing{request->key, std::nullopt};
    channel.queue(encodeResponseHead(request->id, Answer::kConflict),
                  encodeEntries(std::span(&nothing, 1)));
    EXPECT_TRUE(channel.flush().ok());
    EXPECT_TRUE(net::waitFor(channel.fd(), POLLIN, soon()).ok());  // Until the client leaves.
  });
  {
    const auto store = connect();
    const std::vector<MemberId> proposal = {{Role::kWorker, 0}};
    const auto agreed = agreeOnNext(*store, 0, proposal, soon());
    EXPECT_EQ(agreed.status().code(), StatusCode::kInternal) << agreed.status();
  }
  strange.join();
}

// The same with a process that is killed, over Unix sockets and over TLS.
TEST_F(StoreTest, KilledServerEndsWaitsAtOnce) {
  for (const bool tls : {false, true}) {
    server_.reset();
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    const pid_t child = fork();
    if (child == 0) {
      serve(tls ? "127.0.0.1:0" : uniqueAddress(), kSecret);
      const std::string address = server_->address();
      if (write(pipe[1], address.data(), address.size()) < 0) _exit(1);
      while (true) pause();
    }
    close(pipe[1]);
    char address[256] = {};
    ASSERT_GT(read(pipe[0], address, sizeof(address) - 1), 0);
    close(pipe[0]);
    options_ = {address, "job 7", kSecret, "a client", "the store", {}};
    const auto store = connect();
    ASSERT_TRUE(store->set("k", "v", soon()).ok());
    std::thread killer([&] { kill(child, SIGKILL); });
    const auto value = store->wait("never", Deadline::never());
    EXPECT_EQ(value.status().code(), StatusCode::kPeerLost) << value.status();
    killer.join();
    EXPECT_EQ(waitpid(child, nullptr, 0), child);
  }
}

}  // namespace
}  // namespace colla::rendezvous
