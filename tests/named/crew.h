// Ranks as threads of one process, each with an exchange, and what came of their requests.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "named/exchange.h"

namespace colla::named::test {

// One request under way. Copies are the same one.
class Ticket {
 public:
  // False when it is not done within the limit.
  bool ended(std::chrono::milliseconds limit = std::chrono::seconds(30)) const {
    std::unique_lock lock(state_->mutex);
    return state_->changed.wait_for(lock, limit, [this] { return state_->done; });
  }
  // Fails the test if that takes too long.
  Status wait() const {
    if (!ended()) {
      ADD_FAILURE() << "a request does not end";
      return {StatusCode::kTimeout, "not done"};
    }
    return state_->status;
  }
  // What came, once it is done.
  const std::vector<std::byte>& bytes() const { return state_->output; }
  template <typename T>
  std::vector<T> as() const {
    std::vector<T> values(state_->output.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), state_->output.data(), state_->output.size());
    return values;
  }
  const std::vector<std::int64_t>& shape() const { return state_->shape; }
  const std::vector<std::int64_t>& received() const { return state_->received; }
  int times() const { return state_->times; }

  // Completes a request with memory of its own and this ticket.
  template <typename T>
  static std::pair<Request, Ticket> of(Request request, const std::vector<T>& input) {
    Ticket ticket;
    const auto state = ticket.state_;
    const auto* const bytes = reinterpret_cast<const std::byte*>(input.data());
    state->input.assign(bytes, bytes + input.size() * sizeof(T));
    request.input = state->input;
    request.output = [state](std::span<const std::int64_t> shape) -> Result<std::span<std::byte>> {
      state->shape.assign(shape.begin(), shape.end());
      std::size_t size = sizeof(T);
      for (const std::int64_t dimension : shape) size *= static_cast<std::size_t>(dimension);
      state->output.assign(size, std::byte{0xee});
      return std::span<std::byte>(state->output);
    };
    request.done = [state](const Status& status, std::span<const std::int64_t> received) {
      const std::lock_guard lock(state->mutex);
      ++state->times;
      state->status = status;
      state->received.assign(received.begin(), received.end());
      state->done = true;
      state->changed.notify_all();
    };
    return {std::move(request), ticket};
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    int times = 0;
    Status status;
    std::vector<std::byte> input;
    std::vector<std::byte> output;
    std::vector<std::int64_t> shape;
    std::vector<std::int64_t> received;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

template <typename T>
Ticket submit(NamedExchange& exchange, Request request, const std::vector<T>& input) {
  request.type = dataTypeOf<T>();
  auto [whole, ticket] = Ticket::of(std::move(request), input);
  const Status status = exchange.submit(std::move(whole));
  EXPECT_TRUE(status.ok()) << status;
  return ticket;
}
inline Ticket barrier(NamedExchange& exchange, const std::string& name, int set = 0) {
  return submit<float>(exchange, {.name = name, .kind = Kind::kBarrier, .set = set}, {});
}

inline Request allreduce(std::string name, std::int64_t count, Op op = Op::kSum) {
  Request request{.name = std::move(name)};
  request.shape = {count};
  request.op = op;
  return request;
}

inline std::vector<float> noise(int seed, std::size_t count) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// Until join() is over; the last rank, or -1.
inline int joinAndWait(NamedExchange& exchange) {
  auto [request, ticket] = Ticket::of<float>({}, {});
  const auto last = std::make_shared<int>(-1);
  const Status status = exchange.join([done = request.done, last](const Status& s, int rank) {
    *last = rank;
    done(s, {});
  });
  EXPECT_TRUE(status.ok()) << status;
  if (!status.ok()) return -1;
  EXPECT_TRUE(ticket.wait().ok()) << ticket.wait();
  return *last;
}

class Crew {
 public:
  explicit Crew(int ranks, const Options& options = {}) {
    auto jobs = Job::inThreads(ranks);
    EXPECT_TRUE(jobs.ok()) << jobs.status();
    jobs_ = *std::move(jobs);
    exchanges_.resize(jobs_.size());
    each([&](int rank) {
      auto exchange = NamedExchange::create(*jobs_[rank], options);
      EXPECT_TRUE(exchange.ok()) << exchange.status();
      exchanges_[rank] = *std::move(exchange);
    });
  }
  // All at once, as programs end.
  ~Crew() {
    each([&](int rank) { exchanges_[rank].reset(); });
  }

  int size() const { return static_cast<int>(jobs_.size()); }
  NamedExchange& operator[](int rank) { return *exchanges_[rank]; }
  void destroy(int rank) { exchanges_[rank].reset(); }

  // In a thread of its own for each rank.
  void each(const std::function<void(int rank)>& body) const {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size(); ++rank) threads.emplace_back([&, rank] { body(rank); });
    for (std::thread& thread : threads) thread.join();
  }

 private:
  std::vector<std::unique_ptr<Job>> jobs_;
  std::vector<std::unique_ptr<NamedExchange>> exchanges_;
};

}  // namespace colla::named::test
