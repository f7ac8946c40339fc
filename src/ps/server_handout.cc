// The parameters on their way to workers: written into their memory, or sent with the answer.
#include <algorithm>
#include <utility>

#include "ps/server.h"
#include "ps/server_worker.h"

namespace colla::ps {

// For those of `workers` that wait.
Server::Handout Server::handoutTo(std::span<const int> workers) {
  Handout handout;
  for (const int worker : workers) {
    const Worker& w = workers_[worker];
    if (!w.waits) continue;  // It is gone.
    if (!w.areas.empty()) {
      handout.areas.push_back(w.areas[0].bytes.data());
    } else if (!handout.parcel) {
      handout.parcel = std::make_shared<std::map<int, AlignedBytes>>();
      for (const int block : shard_->blocks()) {
        handout.parcel->emplace(block, layout_->blocks()[block].bytes);
      }
    }
  }
  return handout;
}

// `handout` outlives it.
Shard::Sinks Server::sinksOf(const Handout& handout) const {
  return [this, &handout](int block, std::vector<std::byte*>& sinks) {
    for (std::byte* const area : handout.areas) {
      sinks.push_back(area + layout_->blocks()[block].offset);
    }
    if (handout.parcel) sinks.push_back(handout.parcel->at(block).bytes().data());
  };
}

void Server::deliver(std::span<const int> workers) {
  const Handout handout = handoutTo(workers);
  shard_->handOut(sinksOf(handout));
  for (const int worker : workers) release(worker, handout, {});
}

// Tells a worker that they are there, and what became of its gradients.
void Server::release(int number, const Handout& handout, Answer head) {
  Worker& worker = workers_[number];
  if (!worker.waits) return;  // It is gone.
  const Asked to = *std::exchange(worker.waits, std::nullopt);
  head.step = step_;
  head.stop = stop_;
  head.scale = scale_;
  head.samples = statistics_.samples;
  std::int64_t slowest = worker.clock;
  for (const Worker& other : workers_) {
    if (!other.gone) slowest = std::min(slowest, other.clock);
  }
  head.behind = worker.clock - slowest;
  worker.finish.reset();
  worker.rows.clear();
  worker.pushed.clear();
  if (worker.areas.empty()) {
    for (const auto& [block, memory] : *handout.parcel) head.bytes += memory.bytes().size();
  }
  outbox_.send(to.peer, envelopeOf(to.channel, to.sequence, kAnswerStep), encode(head));
  if (!worker.areas.empty()) return;
  // What the next forward needs first goes first.
  std::uint32_t step = kResultStep;
  for (auto it = shard_->blocks().rbegin(); it != shard_->blocks().rend(); ++it) {
    outbox_.send(to.peer, envelopeOf(to.channel, to.sequence, step++),
                 handout.parcel->at(*it).bytes(), handout.parcel);
  }
}

}  // namespace colla::ps
