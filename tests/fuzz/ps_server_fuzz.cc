// A parameter server and a worker that asks for anything. The first byte says whether a good
// declaration comes first, so that what follows is reached; then come asks, a few bytes each, with
// the payloads that they want.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "base/log.h"
#include "ps/declaration.h"
#include "ps/server.h"
#include "ps/wire.h"
#include "transport/inproc/transport.h"

namespace colla::ps {
namespace {

using Bytes = std::span<const std::byte>;

std::vector<std::byte> goodDeclaration() {
  Declaration declaration;
  declaration.entries = {{.name = "weight", .shape = {4}},
                         {.name = "table", .kind = Kind::kRows, .shape = {10, 3}, .order = 1}};
  declaration.layout.servers = 1;
  declaration.policy.workers = 1;
  declaration.firstSlices = {0, 3};  // No subtree: two partial sums.
  return encode(declaration);
}

// The worker's end: what it sends stays until the server has taken it, or is gone.
class Worker {
 public:
  explicit Worker(std::unique_ptr<transport::Transport> transport)
      : transport_(std::move(transport)) {}
  ~Worker() {
    std::vector<transport::Request*> pending;
    for (transport::Request& request : requests_) pending.push_back(&request);
    static_cast<void>(transport_->wait(pending, Deadline::at(TimePoint::min())));
  }

  void ask(const Ask& ask, const std::vector<std::vector<std::byte>>& payloads) {
    send(kAskStep, encode(ask));
    for (std::uint32_t step = kPayloadStep; const auto& payload : payloads) send(step++, payload);
    ++sequence_;
  }

 private:
  void send(std::uint32_t step, std::vector<std::byte> bytes) {
    const auto& kept = kept_.emplace_back(std::move(bytes));
    transport_->send(1, envelopeOf(kWorkerChannel, sequence_, step), kept,
                     requests_.emplace_back());
  }

  std::unique_ptr<transport::Transport> transport_;
  std::uint32_t sequence_ = 0;
  std::deque<std::vector<std::byte>> kept_;
  std::deque<transport::Request> requests_;
};

std::vector<std::byte> take(Bytes& input, std::size_t count) {
  const Bytes part = input.first(std::min(count, input.size()));
  input = input.subspan(part.size());
  return {part.begin(), part.end()};
}

void askAnything(Worker& worker, Bytes& input) {
  std::array<std::int8_t, 7> choice{};
  const auto bytes = take(input, choice.size());
  std::memcpy(choice.data(), bytes.data(), bytes.size());
  Ask ask;
  ask.topic = static_cast<Topic>(static_cast<std::uint8_t>(choice[0]) % 24);
  ask.number = choice[1];
  ask.slot = choice[2] % 4;
  ask.count = static_cast<std::uint8_t>(choice[3]);
  ask.step = choice[4];
  ask.first = choice[5];
  std::vector<std::vector<std::byte>> payloads;
  if (ask.topic == Topic::kPush) {
    ask.number = 0;
    payloads.assign(2, take(input, 16));
    for (auto& payload : payloads) payload.resize(16);
  } else if (choice[6] != 0) {
    payloads.push_back(take(input, static_cast<std::uint8_t>(choice[6])));
    ask.bytes = payloads[0].size();
    if (ask.bytes == 0) payloads.clear();
  }
  worker.ask(ask, payloads);
}

void run(Bytes input) {
  if (input.empty()) return;
  const auto choice = std::to_integer<unsigned>(input[0]);
  input = input.subspan(1);
  transport::inproc::Hub hub(2);
  std::vector<std::unique_ptr<transport::Transport>> transports;
  for (int self = 0; self < 2; ++self) {
    transport::Options options;
    options.jobId = "fuzz";
    options.self = self;
    options.peers = {{"rank 0", ""}, {"ps 0", ""}};
    auto made = hub.connect(options);
    if (!made.ok()) std::abort();
    transports.push_back(*std::move(made));
  }
  Server server({.transport = transports[1].get(), .names = {"rank 0", "ps 0"}});
  {
    Worker worker(std::move(transports[0]));
    if (choice % 4 != 0) {
      static const std::vector<std::byte> declaration = goodDeclaration();
      worker.ask({.topic = Topic::kDeclare, .bytes = declaration.size()}, {declaration});
      if (choice % 4 == 2) {
        // Two steps, one for each entry.
        const std::array<std::uint64_t, 3> steps = {2, 0, 0};
        const auto start = std::as_bytes(std::span(steps));
        worker.ask({.topic = Topic::kStart, .bytes = start.size()}, {{start.begin(), start.end()}});
      }
    }
    for (int asks = 0; asks < 64 && !input.empty(); ++asks) askAnything(worker, input);
  }
  static_cast<void>(server.run());  // Until the worker, which has gone, is found to be.
}

}  // namespace
}  // namespace colla::ps

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  colla::log::setLevel(colla::log::Level::kOff);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  colla::ps::run(std::as_bytes(std::span(data, size)));
  return 0;
}
