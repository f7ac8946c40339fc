// What is refused: strangers, recordings, mixed jobs, those who only waste time. In each case the
// listener goes on.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/wait.h>

#include <random>

#include "base/bytes.h"
#include "net_fixture.h"

namespace colla::transport::net {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;
using Bytes = std::vector<std::byte>;

class RefusalTest : public NetModeTest {
 protected:
  void SetUp() override { listen(GetParam()); }

  // The listener closed on it, nobody came in, one line was logged, and a good client still can.
  void expectRefused(UniqueFd stranger) {
    EXPECT_TRUE(pump([&] { return closed(stranger.get()); }));
    stranger.reset();
    EXPECT_TRUE(pump([&] { return listener_->halfOpen() == 0; }));
    EXPECT_TRUE(accepted_.empty());
    EXPECT_EQ(listener_->refusalsLogged(), 1U);
    expectOpenFor(GetParam());
  }
};

class SecretRefusalTest : public RefusalTest {};
class TcpRefusalTest : public RefusalTest {};
class ClearRefusalTest : public RefusalTest {};
INSTANTIATE_TEST_SUITE_P(All, SecretRefusalTest,
                         ::testing::Values(Mode::kUnixSecret, Mode::kPlain, Mode::kTls), modeName);
INSTANTIATE_TEST_SUITE_P(All, TcpRefusalTest, ::testing::Values(Mode::kPlain, Mode::kTls),
                         modeName);
INSTANTIATE_TEST_SUITE_P(All, ClearRefusalTest,
                         ::testing::Values(Mode::kUnix, Mode::kUnixSecret, Mode::kPlain), modeName);
INSTANTIATE_TEST_SUITE_P(All, RefusalTest,
                         ::testing::Values(Mode::kUnix, Mode::kUnixSecret, Mode::kPlain,
                                           Mode::kTls),
                         modeName);

// A record of the handshake.
Bytes record(std::uint8_t type, std::uint32_t size, std::span<const std::byte> payload) {
  ByteWriter writer;
  writer.number(type);
  writer.number(size);
  writer.raw(payload);
  return writer.take();
}

Bytes opening(const Hello& hello) {
  ByteWriter writer;
  writer.raw(Bytes(32));
  writer.raw(encodeHello(hello));
  const Bytes payload = writer.take();
  return record(1, static_cast<std::uint32_t>(payload.size()), payload);
}

TEST_P(RefusalTest, RandomBytes) {
  std::mt19937 engine(7);
  for (int round = 0; round < 20; ++round) {
    Bytes noise(1 + engine() % 3000);
    for (auto& b : noise) b = static_cast<std::byte>(engine());
    if (noise[0] <= std::byte{3}) noise[0] = std::byte{99};  // Others test what looks right.
    const UniqueFd stranger = say(noise, /*close=*/true);
    ASSERT_TRUE(pump([&] { return closed(stranger.get()); })) << round;
  }
  EXPECT_TRUE(accepted_.empty());
  EXPECT_EQ(listener_->halfOpen(), 0U);
  // Once per reason: not ours, or gone in the middle.
  EXPECT_GE(listener_->refusalsLogged(), 1U);
  EXPECT_LE(listener_->refusalsLogged(), 2U);
  expectOpenFor(GetParam());
}

TEST_P(RefusalTest, OversizedGreeting) {
  expectRefused(say(record(1, 0xffffffff, {})));  // Refused by its length: nothing else was sent.
}

TEST_P(RefusalTest, TruncatedGreeting) {
  const Bytes whole = opening(optionsOf(GetParam(), 1, "rank 1").hello);
  for (const std::size_t size :
       {std::size_t{1}, std::size_t{5}, std::size_t{40}, whole.size() - 1}) {
    const UniqueFd stranger = say(std::span(whole).first(size), /*close=*/true);
    ASSERT_TRUE(pump([&] { return closed(stranger.get()); })) << size;
  }
  EXPECT_TRUE(accepted_.empty());
  expectOpenFor(GetParam());
}

TEST_P(SecretRefusalTest, SkippedProof) {
  Bytes bytes = opening(optionsOf(GetParam(), 1, "rank 1").hello);
  const Bytes yes = record(3, 0, {});
  bytes.insert(bytes.end(), yes.begin(), yes.end());
  expectRefused(say(bytes));
}

TEST_P(SecretRefusalTest, WrongSecretIsToldToBoth) {
  Client& client = connect(optionsOf(GetParam(), 1, "rank 1 on host b", kOtherSecret));
  ASSERT_TRUE(pump([&] { return client.settled() && listener_->refusalsLogged() == 1; }));
  EXPECT_EQ(client.outcome->code(), StatusCode::kRefused) << *client.outcome;
  EXPECT_THAT(toString(*client.outcome), HasSubstr("another secret"));
  EXPECT_TRUE(accepted_.empty());
  expectOpenFor(GetParam());
}

// A listener that does not know the secret gets no client either.
TEST_P(SecretRefusalTest, ListenerMustKnowTheSecretToo) {
  auto options = optionsOf(GetParam(), 0, "rank 0");
  if (GetParam() == Mode::kUnixSecret) options.secret.clear();
  if (GetParam() == Mode::kPlain) options.secret = kOtherSecret;
  if (GetParam() == Mode::kTls) options.tls = *TlsContext::create(kOtherSecret, "job 7");
  listen(listenAddress(GetParam()), options);
  Client& client = connect(optionsOf(GetParam(), 1, "rank 1"));
  ASSERT_TRUE(pump([&] { return client.settled(); }));
  EXPECT_EQ(client.outcome->code(), StatusCode::kRefused) << *client.outcome;
}

TEST_P(RefusalTest, AnotherJobsSecretIsAnotherKey) {
  auto options = optionsOf(GetParam(), 1, "rank 1");
  options.hello.jobId = "job 8";
  if (options.tls != nullptr) options.tls = *TlsContext::create(kSecret, "job 8");
  Client& client = connect(options);
  ASSERT_TRUE(pump([&] { return client.settled(); }));
  EXPECT_EQ(client.outcome->code(), StatusCode::kRefused) << *client.outcome;
  EXPECT_THAT(toString(*client.outcome), HasSubstr("job"));
}

// Sits between a client and the listener and writes down what the client says.
class Recorder {
 public:
  explicit Recorder(const std::string& behind) : behind_(behind) {
    auto listening = listenOn(*Address::parse("127.0.0.1:0"));
    EXPECT_TRUE(listening.ok()) << listening.status();
    listening_ = *std::move(listening);
  }
  std::string address() const { return Address::ofLocalEnd(listening_.get())->text(); }
  const Bytes& recording() const { return recording_; }

  void step() {
    if (!front_.valid()) {
      front_ = *acceptOn(listening_.get());
      if (!front_.valid()) return;
      back_ = *startConnect(*Address::parse(behind_));
    }
    forward(front_.get(), back_.get(), &recording_);
    forward(back_.get(), front_.get(), nullptr);
  }

 private:
  static void forward(int from, int to, Bytes* copy) {
    std::byte buffer[65536];
    const ssize_t count = recv(from, buffer, sizeof(buffer), MSG_DONTWAIT);
    if (count <= 0) return;
    EXPECT_EQ(send(to, buffer, count, MSG_NOSIGNAL), count);
    if (copy != nullptr) copy->insert(copy->end(), buffer, buffer + count);
  }
  std::string behind_;
  UniqueFd listening_, front_, back_;
  Bytes recording_;
};

TEST_P(TcpRefusalTest, ReplayedHandshake) {
  Recorder recorder(listener_->address());
  Client client(Handshake::connect(recorder.address(), optionsOf(GetParam(), 1, "rank 1")));
  beside_ = [&] {
    recorder.step();
    client.step();
  };
  ASSERT_TRUE(pump([&] { return client.settled() && accepted_.size() == 1; }));
  ASSERT_TRUE(client.ok()) << *client.outcome;  // It was a good one, and worked the first time.
  beside_ = nullptr;
  accepted_.clear();

  ASSERT_FALSE(recorder.recording().empty());
  expectRefused(say(recorder.recording()));
}

// Who answers a client with its own words must not pass for another process of the job.
TEST_P(TcpRefusalTest, EchoedHandshake) {
  const UniqueFd listening = *listenOn(*Address::parse("127.0.0.1:0"));
  const std::string address = Address::ofLocalEnd(listening.get())->text();
  Client client(Handshake::connect(address, optionsOf(GetParam(), 1, "rank 1")));
  UniqueFd echo;
  beside_ = [&] {
    client.step();
    if (!echo.valid()) echo = *acceptOn(listening.get());
    std::byte buffer[65536];
    const ssize_t count = recv(echo.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
    if (count > 0) (void)send(echo.get(), buffer, count, MSG_NOSIGNAL);
    if (count == 0) echo.reset();
  };
  ASSERT_TRUE(pump([&] { return client.settled(); }));
  EXPECT_EQ(client.outcome->code(), StatusCode::kRefused) << *client.outcome;
}

TEST_P(RefusalTest, MixedVersionsGiveBothValuesToBoth) {
  struct Field {
    std::string Identity::*value;
    std::string what, theirs, ours;
  };
  const Field fields[] = {{&Identity::colla, "runs colla", "0.2.0", "0.1.0"},
                          {&Identity::torch, "runs torch", "2.13.0+cpu", "2.12.1"},
                          {&Identity::cpu, "has CPU features", "avx2 fma", "avx512f avx2 fma"}};
  // This side's own text, from a handshake that is driven by hand.
  const UniqueFd listening = *listenOn(*Address::parse("127.0.0.1:0"));
  const std::string address = Address::ofLocalEnd(listening.get())->text();
  for (const auto& [value, what, theirs, ours] : fields) {
    auto connecting = optionsOf(GetParam(), 1, "rank 1 on host b");
    auto accepting = optionsOf(GetParam(), 0, "rank 0 on host a");
    connecting.hello.identity.*value = theirs;
    accepting.hello.identity.*value = ours;
    Client connector(Handshake::connect(address, connecting));
    UniqueFd accepted;
    ASSERT_TRUE(pump([&] {
      if (!accepted.valid()) accepted = *acceptOn(listening.get());
      return accepted.valid();
    }));
    Client acceptor(Handshake::accept(std::move(accepted), accepting));
    beside_ = [&] {
      connector.step();
      acceptor.step();
    };
    ASSERT_TRUE(pump([&] { return connector.settled() && acceptor.settled(); }));
    beside_ = nullptr;
    EXPECT_EQ(toString(*acceptor.outcome),
              fmt::format("refused: rank 1 on host b {} {}, this process {}", what, theirs, ours));
    EXPECT_EQ(acceptor.outcome->peer(), 1);
    EXPECT_EQ(toString(*connector.outcome),
              fmt::format("refused: rank 0 on host a {} {}, this process {}", what, ours, theirs));
    EXPECT_EQ(connector.outcome->peer(), 0);
    EXPECT_EQ(acceptor.failure, Handshake::Failure::kMixed);
  }
}

TEST_P(RefusalTest, SettingsThatDifferAreNamedAndOthersAreNot) {
  auto options = optionsOf(GetParam(), 1, "rank 1 on host b");
  options.hello.identity.settings = "slices=8\nthreads=1\ntransport=tcp\n";
  Client& client = connect(options);
  ASSERT_TRUE(pump([&] { return client.settled(); }));
  EXPECT_EQ(toString(*client.outcome),
            "refused: rank 0 on host a has slices=4, this process slices=8; "
            "rank 0 on host a has no transport, this process transport=tcp");
  expectOpenFor(GetParam());
}

TEST_P(RefusalTest, OtherEpoch) {
  auto options = optionsOf(GetParam(), 1, "rank 1");
  options.hello.epoch = 3;
  Client& client = connect(options);
  ASSERT_TRUE(pump([&] { return client.settled(); }));
  EXPECT_THAT(toString(*client.outcome), HasSubstr("is in membership epoch 0, this process in 3"));
}

// What only one side can know is told to the other.
TEST_P(RefusalTest, OwnersCheckIsToldToTheOther) {
  auto options = optionsOf(GetParam(), 0, "rank 0 on host a");
  options.check = [](const Hello& theirs) -> Status {
    if (theirs.peer == 1) return {};
    return {StatusCode::kRefused, "there is no peer " + std::to_string(theirs.peer)};
  };
  listen(listenAddress(GetParam()), options);
  Client& client = connect(optionsOf(GetParam(), 9, "rank 9 on host b"));
  ASSERT_TRUE(pump([&] { return client.settled() && listener_->refusalsLogged() == 1; }));
  EXPECT_EQ(toString(*client.outcome),
            "refused: rank 0 on host a refused this process: there is no peer 9");
  expectOpenFor(GetParam());
}

TEST_P(ClearRefusalTest, OtherProtocolVersionIsTold) {
  Bytes bytes = opening(optionsOf(GetParam(), 1, "rank 1").hello);
  bytes[5 + 32 + 4] = std::byte{77};  // After header, nonce and magic.
  const UniqueFd stranger = say(bytes);
  std::string heard;
  ASSERT_TRUE(pump([&] {
    char buffer[4096];
    const ssize_t count = recv(stranger.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
    if (count > 0) heard.append(buffer, count);
    return count == 0;
  }));
  EXPECT_THAT(heard, HasSubstr("it speaks version 77 of the protocol, rank 0 on host a version 1"));
}

TEST_P(RefusalTest, SlowOnesDoNotHoldUpOthersAndRunOutOfTime) {
  auto options = optionsOf(GetParam(), 0, "rank 0 on host a");
  options.timeout = 300ms;
  listen(listenAddress(GetParam()), options);
  const Bytes whole = opening(optionsOf(GetParam(), 1, "rank 1").hello);
  std::vector<UniqueFd> slow;
  for (int i = 0; i < 5; ++i) slow.push_back(say(std::span(whole).first(1 + i % 4)));
  ASSERT_TRUE(pump([&] { return listener_->halfOpen() == 5; }));
  expectOpenFor(GetParam());
  EXPECT_EQ(listener_->halfOpen(), 5U);  // They were still at it.

  // Only fd() wakes us: time limits are part of it.
  while (listener_->halfOpen() > 0) {
    ASSERT_TRUE(waitFor(listener_->fd(), POLLIN, Deadline::after(kLimit)).ok());
    EXPECT_TRUE(listener_->step().empty());
  }
  for (const auto& fd : slow) EXPECT_TRUE(closed(fd.get()));
  EXPECT_EQ(listener_->refusalsLogged(), 1U);
}

// They only wanted to know whether somebody is there.
TEST_P(RefusalTest, WhoSaysNothingAndGoesIsNotLogged) {
  listen(GetParam());
  for (int i = 0; i < 3; ++i) {
    UniqueFd silent = say({});
    ASSERT_TRUE(pump([&] { return listener_->halfOpen() == 1; }));
    silent.reset();
    ASSERT_TRUE(pump([&] { return listener_->halfOpen() == 0; }));
  }
  EXPECT_EQ(listener_->refusalsLogged(), 0U);
  expectOpenFor(GetParam());
}

TEST_F(NetTest, PlainAndTlsSayWhatIsWrong) {
  listen(Mode::kPlain);
  Client& tls = connect(optionsOf(Mode::kTls, 1, "rank 1"));
  ASSERT_TRUE(pump([&] { return tls.settled() && listener_->refusalsLogged() == 1; }));
  EXPECT_FALSE(tls.ok());

  clients_.clear();
  listen(Mode::kTls);
  Client& plain = connect(optionsOf(Mode::kPlain, 1, "rank 1"));
  ASSERT_TRUE(pump([&] { return plain.settled() && listener_->refusalsLogged() == 1; }));
  EXPECT_THAT(toString(*plain.outcome), HasSubstr("another transport"));
}

TEST_F(NetTest, ForeignUserIsRefusedOnUnixSockets) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  listen(Mode::kUnix);
  const pid_t child = fork();
  if (child == 0) {
    if (setuid(65534) != 0) _exit(3);
    const auto connection = connectNow(listener_->address(), optionsOf(Mode::kUnix, 1, "rank 1"),
                                       Deadline::after(kLimit));
    // Our own side sees a foreign user at the other end, too.
    const bool told = toString(connection.status()).find("belongs to user 0") != std::string::npos;
    // A stranger does not check: the listener has to.
    const UniqueFd bold = say(opening(optionsOf(Mode::kUnix, 1, "rank 1").hello));
    const bool shut =
        waitFor(bold.get(), POLLIN, Deadline::after(kLimit)).ok() && closed(bold.get());
    _exit(connection.ok() ? 1 : !told ? 2 : !shut ? 4 : 0);
  }
  int status = -1;
  ASSERT_TRUE(pump([&] { return waitpid(child, &status, WNOHANG) == child; }));
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_TRUE(accepted_.empty());
  EXPECT_GE(listener_->refusalsLogged(), 1U);
  expectOpenFor(Mode::kUnix);
}

// A server with a certificate in place of the key.
TEST_F(NetTest, CertificatesAreNoSubstituteForTheKey) {
  listen(Mode::kUnix);  // Only to have something to pump.
  EVP_PKEY* key = EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256");
  X509* certificate = X509_new();
  X509_set_pubkey(certificate, key);
  X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
  ASSERT_GT(X509_sign(certificate, key, EVP_sha256()), 0);
  SSL_CTX* context = SSL_CTX_new(TLS_server_method());
  ASSERT_EQ(SSL_CTX_use_certificate(context, certificate), 1);
  ASSERT_EQ(SSL_CTX_use_PrivateKey(context, key), 1);

  const UniqueFd listening = *listenOn(*Address::parse("127.0.0.1:0"));
  Client client(Handshake::connect(Address::ofLocalEnd(listening.get())->text(),
                                   optionsOf(Mode::kTls, 1, "rank 1")));
  UniqueFd accepted;
  SSL* ssl = SSL_new(context);
  beside_ = [&] {
    client.step();
    if (!accepted.valid()) {
      accepted = *acceptOn(listening.get());
      if (accepted.valid()) SSL_set_fd(ssl, accepted.get());
    }
    if (accepted.valid()) (void)SSL_accept(ssl);
  };
  ASSERT_TRUE(pump([&] { return client.settled(); }));
  EXPECT_EQ(client.outcome->code(), StatusCode::kRefused) << *client.outcome;
  SSL_free(ssl);
  SSL_CTX_free(context);
  X509_free(certificate);
  EVP_PKEY_free(key);
}

TEST(HelloTest, EveryTruncationIsRefused) {
  Hello hello;
  hello.identity.settings = "slices=4\n";
  const Bytes whole = encodeHello(hello);
  ASSERT_TRUE(parseHello(whole).ok());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(parseHello(std::span(whole).first(size)).ok()) << size;
  }
  Bytes longer = whole;
  longer.push_back({});
  EXPECT_FALSE(parseHello(longer).ok());
}

TEST(HelloTest, NamesCannotForgeLogLines) {
  Hello hello;
  hello.name = "rank 1\n12:00 E rank 0: all is lost";
  EXPECT_THAT(parseHello(encodeHello(hello))->name, Not(HasSubstr("\n")));
}

}  // namespace
}  // namespace colla::transport::net
