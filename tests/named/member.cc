// A process of a job that keeps an exchange busy until something ends it, and says how.
//
//   member MODE
//     busy: allreduces of two sizes without end;
//     idle: one operation that nobody else brings;
//     rounds: 40 times every kind, then "sum=…", and it leaves as it pleases;
//     leave: rank 1 ends in an orderly way while others wait.
#include <condition_variable>
#include <cstdio>
#include <iostream>
#include <mutex>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "named/exchange.h"

using namespace colla;

namespace {

constexpr long kRounds = 40;

// One operation, and what came of it.
struct Outcome {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  Status status;
  std::vector<float> output;

  Status wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return done; });
    return status;
  }
};

Status start(named::NamedExchange& exchange, named::Request request, std::span<const float> input,
             const std::shared_ptr<Outcome>& result) {
  request.input = std::as_bytes(input);
  request.output = [result](std::span<const std::int64_t> shape) {
    result->output.resize(static_cast<std::size_t>(
        std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>())));
    return colla::Result<std::span<std::byte>>(std::as_writable_bytes(std::span(result->output)));
  };
  request.done = [result](const Status& status, std::span<const std::int64_t>) {
    const std::lock_guard lock(result->mutex);
    result->status = status;
    result->done = true;
    result->changed.notify_all();
  };
  return exchange.submit(std::move(request));
}

// The first error that comes.
Status keepBusy(named::NamedExchange& exchange, const std::string& mode, int rank) {
  std::vector<float> small(100, 1), large(100'000, 1);
  for (long round = 0; mode != "rounds" || round < kRounds; ++round) {
    std::vector<std::shared_ptr<Outcome>> results;
    const auto add = [&](named::Kind kind, const std::string& name,
                         const std::vector<float>& input) {
      named::Request request;
      request.name = name;
      request.kind = kind;
      if (kind != named::Kind::kBarrier) request.shape = {static_cast<std::int64_t>(input.size())};
      results.push_back(std::make_shared<Outcome>());
      const auto count = kind == named::Kind::kBarrier ? 0 : input.size();
      return start(exchange, std::move(request), {input.data(), count}, results.back());
    };
    if (mode == "idle") {
      COLLA_TRY(add(named::Kind::kAllreduce, "rank " + std::to_string(rank), small));
    } else if (mode == "leave") {
      if (rank == 1) return {};
      COLLA_TRY(add(named::Kind::kAllreduce, "all", small));
    } else {
      COLLA_TRY(add(named::Kind::kAllreduce, "small", small));
      COLLA_TRY(add(named::Kind::kAllreduce, "large", large));
      COLLA_TRY(add(named::Kind::kAllgather, "gather", small));
      COLLA_TRY(add(named::Kind::kBroadcast, "broadcast", small));
      COLLA_TRY(add(named::Kind::kBarrier, "barrier", small));
    }
    if (round == 0) std::cout << "going" << std::endl;
    for (const auto& result : results) COLLA_TRY(result->wait());
    if (mode == "rounds" && round == kRounds - 1)
      std::cout << "sum=" << results[1]->output[5] << std::endl;
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  auto job = Job::init();
  if (!job.ok()) {
    std::cout << job.status() << std::endl;
    return 1;
  }
  auto exchange = named::NamedExchange::create(**job);
  if (!exchange.ok()) {
    std::cout << exchange.status() << std::endl;
    return 1;
  }
  const int rank = (*job)->rank();
  const Status status = keepBusy(**exchange, argv[1], rank);
  if (status.ok()) {
    std::cout << "fine" << std::endl;
    return 0;
  }
  // Later calls say the same.
  const Status later = (*exchange)->status();
  std::cout << "peer=" << status.peer() << " " << status << "; later " << later << std::endl;
  return 3;
}
