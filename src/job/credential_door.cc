#include "job/credential_door.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>

#include "base/log.h"
#include "rendezvous/secret_munge.h"
#include "transport/net/socket.h"

namespace colla::job {
namespace {

using namespace std::chrono_literals;
namespace net = transport::net;

constexpr std::size_t kLongestCredential = 64 * 1024;

// All that comes before the other end closes.
Result<std::string> readAll(int fd, Deadline deadline) {
  std::string text;
  std::array<char, 4096> piece{};
  while (text.size() <= kLongestCredential) {
    COLLA_TRY(net::waitFor(fd, POLLIN, deadline));
    const ssize_t size = ::recv(fd, piece.data(), piece.size(), 0);
    if (size == 0) return text;
    if (size < 0 && errno != EAGAIN && errno != EINTR) {
      return {StatusCode::kPeerLost, std::strerror(errno)};
    }
    if (size > 0) text.append(piece.data(), static_cast<std::size_t>(size));
  }
  return {StatusCode::kRefused, "what answers there is not rank 0"};
}

Result<std::string> fetchOnce(const net::Address& address, Deadline deadline) {
  COLLA_TRY_ASSIGN(const UniqueFd fd, net::startConnect(address));
  COLLA_TRY(net::waitFor(fd.get(), POLLOUT, deadline));
  COLLA_TRY(net::finishConnect(fd.get(), address));
  return readAll(fd.get(), deadline);
}

}  // namespace

Result<std::shared_ptr<CredentialDoor>> CredentialDoor::open(const net::Address& address,
                                                             std::string text) {
  COLLA_TRY_ASSIGN(UniqueFd listening, net::listenOn(address));
  UniqueFd stop(eventfd(0, EFD_CLOEXEC));
  if (!stop.valid()) return {StatusCode::kNoMemory, "no descriptors are left"};
  return std::shared_ptr<CredentialDoor>(
      new CredentialDoor(std::move(listening), std::move(stop), std::move(text)));
}

CredentialDoor::CredentialDoor(UniqueFd listening, UniqueFd stop, std::string text)
    : listening_(std::move(listening)), stop_(std::move(stop)), text_(std::move(text)) {
  thread_ = std::thread([this] { serve(); });
}

CredentialDoor::~CredentialDoor() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = write(stop_.get(), &one, sizeof(one));
  thread_.join();
}

void CredentialDoor::serve() {
  while (true) {
    std::array<pollfd, 2> events = {pollfd{listening_.get(), POLLIN, 0},
                                    pollfd{stop_.get(), POLLIN, 0}};
    if (poll(events.data(), events.size(), -1) < 0 && errno != EINTR) return;
    if (events[1].revents != 0) return;
    const auto guest = net::acceptOn(listening_.get());
    if (!guest.ok()) {
      std::this_thread::sleep_for(10ms);  // Out of descriptors: the guest still waits.
      continue;
    }
    if (!guest->valid()) continue;
    const auto credential = rendezvous::mungeSeal(text_);
    if (!credential.ok()) {
      log::warn("{}", credential.status().message());
      continue;
    }
    // A new socket's buffer takes all of it: nobody can keep the others waiting.
    [[maybe_unused]] const auto sent =
        ::send(guest->get(), credential->data(), credential->size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

// Rank 0 may start later than this process, and its host's name may be known later still.
Result<std::string> fetchCredential(const std::string& address, Deadline deadline) {
  constexpr auto kPause = 50ms;
  while (true) {
    const auto parsed = net::Address::parse(address);
    auto credential = parsed.ok() ? fetchOnce(*parsed, deadline) : parsed.status();
    // A door that closes just now has accepted, and says nothing.
    if (credential.ok() && !credential->empty()) return credential;
    if (credential.status().code() == StatusCode::kRefused) return credential;
    if (deadline.remaining() <= kPause) {
      return {
          StatusCode::kTimeout,
          fmt::format("rank 0 does not answer at {}{}: was it started, and can that be "
                      "reached from here?",
                      address,
                      credential.ok() ? "" : fmt::format(" ({})", credential.status().message()))};
    }
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace colla::job
