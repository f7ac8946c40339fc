// A real server, and clients of it.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "rendezvous/store.h"
#include "rendezvous/store_server.h"

namespace colla::rendezvous {

inline const std::string kSecret = "0123456789abcdef0123456789abcdef";

inline Deadline soon() { return Deadline::after(std::chrono::seconds(30)); }

inline std::string uniqueAddress() {
  static std::atomic<int> count = 0;
  return "unix:@colla-store-test-" + std::to_string(getpid()) + "-" + std::to_string(++count);
}

class StoreTest : public ::testing::Test {
 protected:
  void SetUp() override { serve(uniqueAddress(), ""); }

  void serve(const std::string& address, const std::string& secret) {
    StoreServerOptions options;
    options.address = address;
    options.jobId = "job 7";
    options.secret = secret;
    auto started = StoreServer::start(options);
    ASSERT_TRUE(started.ok()) << started.status();
    server_ = *std::move(started);
    options_.address = server_->address();
    options_.jobId = options.jobId;
    options_.secret = secret;
  }
  std::unique_ptr<Store> connect() {
    auto store = Store::connect(options_, soon());
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }
  // Until the server has so many that wait.
  bool waitForWaiters(std::size_t count) {
    const Deadline deadline = soon();
    while (server_->waiting() != count) {
      if (deadline.expired()) return false;
      std::this_thread::yield();
    }
    return true;
  }

  std::unique_ptr<StoreServer> server_;
  StoreOptions options_;
};

}  // namespace colla::rendezvous
