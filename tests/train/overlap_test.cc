// When gradients leave a worker and parameters come back: as a server sees it that keeps a record.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <condition_variable>
#include <cstring>
#include <future>
#include <map>
#include <mutex>
#include <thread>

#include "colla/error.h"
#include "job/environment.h"
#include "job/open_store.h"
#include "ps/server.h"
#include "train/exchange/server_link.h"
#include "train/slice_random.h"

namespace colla::train {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

// A server's transport, and what passed it.
class Watched final : public transport::Transport {
 public:
  explicit Watched(transport::Transport& inner) : inner_(inner) {}

  // Asks with this topic that the server has all of, by their numbers; waits until there are some.
  std::vector<int> asked(ps::Topic topic, std::size_t atLeast = 0) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, 20s, [&] { return asked_[topic].size() >= atLeast; });
    return asked_[topic];
  }
  // The first number of each message of parameters since the last call.
  std::vector<float> sent() {
    const std::lock_guard lock(mutex_);
    return std::exchange(sent_, {});
  }

  std::string_view name() const override { return inner_.name(); }
  int self() const override { return inner_.self(); }
  int size() const override { return inner_.size(); }
  void send(int peer, const transport::Envelope& envelope, std::span<const std::byte> data,
            transport::Request& request) override {
    if (envelope.step >= ps::kResultStep) {
      const std::lock_guard lock(mutex_);
      std::memcpy(&sent_.emplace_back(), data.data(), sizeof(float));
    }
    inner_.send(peer, envelope, data, request);
  }
  // A server that has all of an ask listens for the next one, into the same memory.
  void recv(int peer, const transport::Envelope& envelope, std::span<std::byte> data,
            transport::Request& request) override {
    if (envelope.step == ps::kAskStep && envelope.sequence > 0) {
      const ps::Ask ask = ps::decodeAsk(data);
      const std::lock_guard lock(mutex_);
      asked_[ask.topic].push_back(ask.number);
      changed_.notify_all();
    }
    inner_.recv(peer, envelope, data, request);
  }
  Status wait(std::span<transport::Request* const> requests, Deadline deadline) override {
    return inner_.wait(requests, deadline);
  }
  bool waitAny(std::span<transport::Request* const> requests, Deadline deadline) override {
    return inner_.waitAny(requests, deadline);
  }
  void abort(std::uint32_t group, const Status& why, std::span<const int> peers) override {
    inner_.abort(group, why, peers);
  }
  Status aborted(std::uint32_t group) override { return inner_.aborted(group); }
  Status abortedBy(int peer, std::uint32_t group) override { return inner_.abortedBy(peer, group); }
  transport::SharedMemory* sharedMemory() override { return inner_.sharedMemory(); }

 private:
  transport::Transport& inner_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<ps::Topic, std::vector<int>> asked_;
  std::vector<float> sent_;
};

std::unique_ptr<Job> join(Role role, const std::string& transport) {
  job::Meeting meeting;
  job::Place& place = meeting.place;
  place.role = role;
  place.servers = 1;
  place.jobId = fmt::format("overlap {}", getpid());
  place.host = job::hostName();
  place.store = job::localStore(place.jobId);
  place.servesStore = role == Role::kServer;
  place.secretHex = std::string(64, 'a');
  return valueOrThrow(
      Job::init({.settings = {{"transport", transport}, {"threads", "1"}}, .serves = true},
                std::move(meeting)));
}

// One worker and one server, as threads of the test.
void run(const std::string& transport, const std::function<void(Job&, Watched&)>& worker) {
  std::promise<Watched*> promise;
  std::thread server([&] {
    const auto job = join(Role::kServer, transport);
    Watched watched(*job->transport());
    promise.set_value(&watched);
    EXPECT_TRUE(ps::Server({.transport = &watched, .names = job->names()}).run().ok());
  });
  const auto job = join(Role::kWorker, transport);
  worker(*job, *promise.get_future().get());
  server.join();
}

// Three layers of more than a block each, whose parameters are all 1, all 2 and all 3.
struct Layers {
  Layers() {
    const torch::NoGradGuard noGrad;
    for (int number = 1; number <= 3; ++number) {
      layers.emplace_back(600, 600);
      for (const auto& item : layers.back()->named_parameters()) {
        item.value().fill_(number);
        tensors.parameters.push_back({fmt::format("{}.{}", number, item.key()), item.value()});
        tensors.orders.push_back(static_cast<int>(tensors.orders.size()));
      }
    }
  }
  // `atLast` is called when backward has left the last layer and the others' are still to come.
  torch::Tensor loss(const std::function<void()>& atLast) {
    // So small that an update changes little.
    const torch::Tensor hidden = layers[1](layers[0](torch::full({1, 600}, 1e-9)));
    hidden.register_hook([atLast](const torch::Tensor&) { atLast(); });
    return layers[2](hidden).sum();
  }
  std::vector<torch::nn::Linear> layers;
  ServerLink::Tensors tensors;
};

ServerPlan plan() {
  ServerPlan plan;
  plan.optimizer = Sgd{.lr = 1e-6};
  return plan;
}

class OverlapTest : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Transports, OverlapTest, ::testing::Values("shm", "tcp-plain"),
                         [](const auto& test) { return test.param.substr(0, 3); });

TEST_P(OverlapTest, TheLastLayersGradientsArriveBeforeTheOthersAreComputed) {
  run(GetParam(), [](Job& job, Watched& watched) {
    Layers model;
    ServerLink servers(Workers::all(job), model.tensors, plan());
    servers.start(0, {});
    std::size_t early = 0;
    servers.beginSlice(0);
    model.loss([&] { early = watched.asked(ps::Topic::kPush, 1).size(); }).backward();
    servers.endSlice();
    servers.finish({});
    EXPECT_GT(early, 0U);
    EXPECT_LT(early, watched.asked(ps::Topic::kPush).size());
    servers.leave();
  });
}

// Where servers write them into the worker's memory, all are there at once.
TEST(PullTest, TheParametersThatForwardNeedsFirstAreSentFirst) {
  run("tcp-plain", [](Job& job, Watched& watched) {
    Layers model;
    ServerLink servers(Workers::all(job), model.tensors, plan());
    servers.start(0, {});
    servers.beginSlice(0);
    model.loss([] {}).backward();
    servers.endSlice();
    watched.sent();
    servers.finish({});
    std::vector<int> layers;
    for (const float value : watched.sent()) {
      const int layer = static_cast<int>(std::lround(value));
      if (layers.empty() || layers.back() != layer) layers.push_back(layer);
    }
    EXPECT_THAT(layers, ElementsAre(1, 2, 3));
    servers.leave();
  });
}

// Rows come when forward is about to read them.
TEST_P(OverlapTest, RowsArePulledInTheOrderOfLookups) {
  run(GetParam(), [](Job& job, Watched& watched) {
    ServerLink::Tensors tensors;
    for (const char* name : {"a", "b"}) {
      tensors.tables.push_back({name, torch::ones({50, 4}).set_requires_grad(true)});
      tensors.orders.push_back(static_cast<int>(tensors.orders.size()));
    }
    ServerLink servers(Workers::all(job), tensors, plan());
    servers.start(0, {});
    const SliceRandom random(1);
    const RowLookup lookup(&servers);
    const torch::Tensor rows = torch::tensor({3, 7, 3}, torch::kInt64);
    torch::embedding(tensors.tables[1].tensor, rows);
    EXPECT_THAT(watched.asked(ps::Topic::kPullRows, 1), ElementsAre(1));
    torch::embedding(tensors.tables[0].tensor, rows);
    EXPECT_THAT(watched.asked(ps::Topic::kPullRows, 2), ElementsAre(1, 0));
    servers.leave();
  });
}

}  // namespace
}  // namespace colla::train
