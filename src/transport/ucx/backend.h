// Streams over UCX, and the wait for them.
//
// Peers find each other over TLS, by the backend `tcp`: the door. What arrives there becomes a
// stream over UCX (newcomer.h), and the TLS connection stays as its lifeline.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "transport/backend.h"
#include "transport/options.h"
#include "transport/ucx/newcomer.h"
#include "transport/ucx/worker.h"

namespace colla::transport::ucx {

// A file descriptor to poll, whose owner may be gone by then.
class Descriptor final : public Stream {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Result<std::size_t> read(std::span<std::byte>) override { return std::size_t{0}; }
  Result<std::size_t> write(std::span<const std::byte>) override { return std::size_t{0}; }
  int fd() const override { return fd_; }

 private:
  int fd_;
};

class UcxBackend final : public Backend {
 public:
  static Result<std::unique_ptr<UcxBackend>> create(const Options& options,
                                                    std::unique_ptr<Backend> door);

  std::string_view name() const override { return "ucx"; }
  void connect(int peer) override { door_->connect(peer); }
  void expect(int peer) override { door_->expect(peer); }
  void poll(std::vector<Arrival>& arrivals) override;
  void sleep(std::span<Watch> watches, Deadline until) override;
  void wake() override;

 private:
  UcxBackend(const Options& options, std::unique_ptr<Backend> door)
      : options_(options), door_(std::move(door)) {}
  bool look(std::span<Watch> watches);
  bool news(std::span<Watch> watches);
  void sleepAtDoor(std::span<Watch> watches, Deadline until);

  const Options options_;
  const std::unique_ptr<Backend> door_;
  std::shared_ptr<Worker> worker_;
  std::atomic<bool> woken_ = false;

  std::vector<Newcomer> newcomers_;       // Guarded by the worker's mutex.
  std::vector<Backend::Arrival> atDoor_;  // poll()'s own.
  // The sleeper's own.
  unsigned looks_ = 0;
  std::vector<Descriptor> descriptors_;
  std::vector<UcxStream*> lifelines_;  // Of each descriptor, or null.
  std::vector<bool> writes_;           // Wait for room as well.
  std::vector<Watch> doorWatches_;
};

}  // namespace colla::transport::ucx
