// Strangers at the door of a job that runs: refused, logged once, and the job goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "base/thread_annotations.h"
#include "job/store_identity.h"
#include "rendezvous/membership.h"
#include "rendezvous/secret.h"
#include "support/processes.h"
#include "support/scratch.h"
#include "transport/net/address.h"
#include "transport/net/handshake.h"
#include "transport/net/socket.h"

namespace colla {
namespace {

using namespace std::chrono_literals;
namespace net = transport::net;
using test::Processes;

// Sits between two ranks, passes everything on, and writes down how the first connection begins.
class Recorder {
 public:
  explicit Recorder(const std::string& behind)
      : behind_(*net::Address::parse(behind)),
        listening_(*net::listenOn(*net::Address::parse("127.0.0.1:0"))),
        acceptor_([this] { run(); }) {}
  ~Recorder() {
    stop_ = true;
    acceptor_.join();
    for (const UniqueFd& end : ends_) shutdown(end.get(), SHUT_RDWR);
    for (std::thread& thread : forwarders_) thread.join();
  }
  std::string address() const { return net::Address::ofLocalEnd(listening_.get())->text(); }
  std::string recording() {
    const MutexLock lock(mutex_);
    return recording_;
  }
  std::size_t passed() const { return passed_; }

 private:
  void run() {
    while (!stop_) {
      pollfd entry{listening_.get(), POLLIN, 0};
      if (poll(&entry, 1, 20) <= 0) continue;
      const int front = accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC);
      const int back = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      EXPECT_EQ(connect(back, behind_.system(), behind_.systemSize()), 0);
      ends_.emplace_back(front);
      ends_.emplace_back(back);
      forwarders_.emplace_back(
          [=, this, first = ends_.size() == 2] { forward(front, back, first); });
      forwarders_.emplace_back([=, this] { forward(back, front, false); });
    }
  }
  void forward(int from, int to, bool record) {
    char buffer[65536];
    for (ssize_t size = 0; (size = recv(from, buffer, sizeof(buffer), 0)) > 0;) {
      if (record) {
        const MutexLock lock(mutex_);
        recording_.append(buffer, std::min<std::size_t>(size, 8192 - recording_.size()));
      }
      passed_ += static_cast<std::size_t>(size);
      for (ssize_t sent = 0; sent < size;) {
        const ssize_t more = ::send(to, buffer + sent, size - sent, MSG_NOSIGNAL);
        if (more <= 0) return;
        sent += more;
      }
    }
    shutdown(to, SHUT_WR);
  }

  const net::Address behind_;
  const UniqueFd listening_;
  std::atomic<bool> stop_{false};
  std::atomic<std::size_t> passed_{0};
  Mutex mutex_;
  std::string recording_ COLLA_GUARDED_BY(mutex_);
  std::vector<UniqueFd> ends_;
  std::vector<std::thread> forwarders_;
  std::thread acceptor_;
};

// Says `bytes` from this host's address 127.0.0.`host`, and waits until the other side hangs up.
void visit(const net::Address& door, int host, const std::string& bytes, bool leave) {
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in own{};
  own.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(0x7f000000U + static_cast<std::uint32_t>(host));
  ASSERT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&own), sizeof(own)), 0);
  ASSERT_EQ(connect(fd.get(), door.system(), door.systemSize()), 0);
  ASSERT_EQ(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
  if (leave) shutdown(fd.get(), SHUT_WR);
  char buffer[4096];
  ssize_t heard = 1;
  for (pollfd entry{fd.get(), POLLIN, 0}; heard > 0 && poll(&entry, 1, 20000) > 0;) {
    heard = recv(fd.get(), buffer, sizeof(buffer), 0);
  }
  EXPECT_LE(heard, 0) << "127.0.0." << host << " is still let in after " << bytes.size()
                      << " bytes";
}

int countOf(const std::string& text, const std::string& part) {
  int count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

class StrangersAtAJobTest : public ::testing::TestWithParam<const char*> {};

TEST_P(StrangersAtAJobTest, AreRefusedLoggedOnceAndTheJobGoesOn) {
  const bool tls = std::string_view(GetParam()) == "tcp";
  const Scratch folder;
  const std::string held = folder.write("held", "");
  Processes job(2,
                {"/bin/sh", "-c", "while [ -e \"$HELD\" ]; do /bin/sleep 0.01; done; exec \"$@\"",
                 "sh", COLLA_MEMBER, "allreduce", "1000000000", "200000", "60000"},
                {{"COLLA_TRANSPORT", GetParam()}}, {{1, {{"HELD", held}}}});

  // Rank 1 comes when it finds the recorder at the address of rank 0.
  const job::Place& place = job.place();
  const std::string secret = *rendezvous::loadSecret(place.secretHex.c_str(), "");
  const Deadline deadline = Deadline::after(20s);
  const auto store = rendezvous::Store::connect({.address = place.store,
                                                 .jobId = place.jobId,
                                                 .secret = secret,
                                                 .name = "the test",
                                                 .identity = job::storeIdentity()},
                                                deadline);
  ASSERT_TRUE(store.ok()) << store.status();
  const std::string key = "epoch/0/member/worker/0";
  const auto entry = (*store)->wait(key, deadline);
  ASSERT_TRUE(entry.ok()) << entry.status();
  auto member = rendezvous::parseMember(*entry);
  ASSERT_TRUE(member.ok()) << member.status();
  const std::string address = member->addresses.at(GetParam());
  Recorder recorder(address);
  member->addresses[GetParam()] = recorder.address();
  ASSERT_TRUE((*store)->set(key, rendezvous::encodeMember(*member), deadline).ok());
  std::filesystem::remove(held);
  ASSERT_TRUE(job.says(0, "going"));
  ASSERT_TRUE(job.says(1, "going"));
  const std::string recording = recorder.recording();
  ASSERT_EQ(recording.size(), 8192U);  // The handshake, and more.

  const net::Address door = *net::Address::parse(address);
  // Lengths as large as they can be: of a TLS record, and of a record of ours.
  const std::string oversized = tls ? "\x16\x03\x01\xff\xff" : "\x01\xff\xff\xff\xff";
  for (int time = 0; time < 3; ++time) {
    visit(door, 2, recording.substr(0, 40), /*leave=*/true);
    visit(door, 3, oversized + std::string(100, 'x'), /*leave=*/false);
    visit(door, 4, recording, /*leave=*/false);

    net::HandshakeOptions wrong;
    wrong.hello.jobId = place.jobId;
    wrong.hello.name = "a stranger";
    wrong.hello.peer = 1;
    wrong.secret = std::string(32, 's');
    if (tls) wrong.tls = *net::TlsContext::create(wrong.secret, place.jobId);
    const auto connection = net::connectNow(address, wrong, Deadline::after(20s));
    EXPECT_EQ(connection.status().code(), StatusCode::kRefused) << connection.status();
  }

  // It goes on: more passes between the two than could lie somewhere in between.
  const std::size_t before = recorder.passed();
  for (const Deadline soon = Deadline::after(20s); recorder.passed() < before + 50'000'000;) {
    ASSERT_FALSE(soon.expired()) << "the ranks have stopped";
    std::this_thread::sleep_for(1ms);
  }
  for (const char* host : {"127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"}) {
    const std::string line = std::string("refused a connection from ") + host + ": ";
    EXPECT_TRUE(job.says(0, line)) << line;
  }
  job.signal(0, SIGKILL);
  const std::string said = job.end(0).said;
  EXPECT_EQ(countOf(said, "refused a connection"), 4) << said;
  EXPECT_EQ(countOf(job.end(1).said, "refused a connection"), 0);
}

INSTANTIATE_TEST_SUITE_P(All, StrangersAtAJobTest, ::testing::Values("tcp", "tcp-plain"),
                         [](const auto& test) {
                           return std::string(test.param) == "tcp" ? "Tls" : "Plain";
                         });

}  // namespace
}  // namespace colla
