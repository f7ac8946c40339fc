#include "ps/host_sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "collective/fold.h"
#include "ps/pushed_rows.h"
#include "ps/wire.h"

namespace colla::ps {
namespace {

using namespace std::chrono_literals;

// How long a wait goes on after stop().
constexpr auto kLook = 100ms;
constexpr std::size_t kPlaceBytes = sizeof(transport::Place);

}  // namespace

struct HostSums::RowsMark {
  std::atomic<std::uint64_t> step;
  std::uint64_t bytes;     // Of the rows,
  transport::Place place;  // and where they lie.
};

Result<std::unique_ptr<HostSums>> HostSums::meet(Options options, const Layout& layout,
                                                 const PushPlan& plan,
                                                 std::span<const std::span<std::byte>> partials) {
  std::unique_ptr<HostSums> sums(new HostSums(std::move(options), layout, plan));
  COLLA_TRY_ASSIGN(sums->slate_, sums->memory_.allocate(sums->slateBytes()));
  COLLA_TRY(sums->exchangePlaces(partials));
  return sums;
}

HostSums::HostSums(Options options, const Layout& layout, const PushPlan& plan)
    : options_(std::move(options)),
      layout_(layout),
      plan_(plan),
      memory_(*options_.host->sharedMemory()),
      rows_(memory_),
      marked_(layout.entries().size()) {
  const Topology& topology = plan.topology();
  for (const int worker : topology.ranksOn(topology.hostOf(options_.worker))) {
    neighbours_.push_back({.worker = worker, .slate = {}, .partials = {}});
    if (worker != options_.worker) others_.push_back(options_.peers[worker]);
  }
}

// Every worker tells every other one of its host where its marks and its partial sums lie.
Status HostSums::exchangePlaces(std::span<const std::span<std::byte>> partials) {
  const Deadline deadline = Deadline::after(options_.timeout);
  std::vector<transport::Place> mine = {memory_.find(slate_.bytes)};
  for (const auto& partial : partials) mine.push_back(memory_.find(partial));

  std::vector<std::vector<transport::Place>> theirs;
  std::deque<transport::Request> requests;
  std::vector<transport::Request*> pending;
  const transport::Envelope envelope = envelopeOf(kNeighbourChannel, 0, 0);
  const auto next = [&]() -> transport::Request& {
    pending.push_back(&requests.emplace_back());
    return *pending.back();
  };
  for (const Neighbour& neighbour : neighbours_) {
    auto& places = theirs.emplace_back();
    if (neighbour.worker == options_.worker) continue;
    places.resize(1 + static_cast<std::size_t>(plan_.wholeTree().leavesOf(neighbour.worker)));
    options_.host->recv(
        peerOf(neighbour), envelope,
        std::as_writable_bytes(std::span(places)).first(places.size() * kPlaceBytes), next());
    options_.host->send(peerOf(neighbour), envelope, std::as_bytes(std::span(mine)), next());
  }
  COLLA_TRY(options_.host->wait(pending, deadline).withContext("meeting the workers of this host"));

  for (std::size_t i = 0; i < neighbours_.size(); ++i) {
    Neighbour& neighbour = neighbours_[i];
    if (neighbour.worker == options_.worker) {
      neighbour.slate = slate_;
      for (const auto& partial : partials) neighbour.partials.push_back({partial, nullptr});
      continue;
    }
    const auto map = [&](const transport::Place& place, std::size_t bytes) {
      return memory_.map(peerOf(neighbour), place, bytes, deadline);
    };
    COLLA_TRY_ASSIGN(neighbour.slate, map(theirs[i].front(), slateBytes()));
    for (const transport::Place& place : std::span(theirs[i]).subspan(1)) {
      COLLA_TRY_ASSIGN(neighbour.partials.emplace_back(),
                       map(place, std::max<std::size_t>(layout_.areaBytes(), 1)));
    }
  }
  return {};
}

// The marks of all blocks, then those of all entries.
std::size_t HostSums::slateBytes() const {
  return layout_.blocks().size() * sizeof(std::atomic<std::uint64_t>) +
         layout_.entries().size() * sizeof(RowsMark);
}

std::atomic<std::uint64_t>& HostSums::blockMark(const transport::Mapping& slate, int block) const {
  return reinterpret_cast<std::atomic<std::uint64_t>*>(slate.bytes.data())[block];
}

HostSums::RowsMark& HostSums::rowsMark(const transport::Mapping& slate, int entry) const {
  std::byte* const first =
      slate.bytes.data() + layout_.blocks().size() * sizeof(std::atomic<std::uint64_t>);
  return reinterpret_cast<RowsMark*>(first)[entry];
}

void HostSums::mark(int block) {
  blockMark(slate_, block).store(step_, std::memory_order_release);
  memory_.notify(others_);
}

Status HostSums::markRows(int entry, std::span<const collective::Rows> leaves) {
  RowsWriter writer(leaves.size(), layout_.entries()[entry].width());
  for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf) {
    writer.add(leaf, leaves[leaf], 0, leaves[leaf].rows.size());
  }
  const std::span<std::byte> bytes = rows_.take(writer.bytes());
  if (bytes.empty()) {
    return {StatusCode::kNoMemory,
            fmt::format("no shared memory for {} bytes of rows of table \"{}\"", writer.bytes(),
                        layout_.entries()[entry].name)};
  }
  writer.write(bytes);
  marked_[entry] = bytes;
  RowsMark& mark = rowsMark(slate_, entry);
  mark.bytes = bytes.size();
  mark.place = memory_.find(bytes);
  mark.step.store(step_, std::memory_order_release);
  memory_.notify(others_);
  return {};
}

void HostSums::endStep() {
  ++step_;
  rows_.takeBack();
}

// Until all workers of the host have set the mark to the present step.
template <typename MarkOf>
Status HostSums::awaitMarks(const MarkOf& markOf, const std::string& name) {
  const Deadline deadline = Deadline::after(options_.timeout);
  const std::uint64_t step = step_;
  const auto missing = [&] {
    return std::ranges::find_if(neighbours_, [&](const Neighbour& neighbour) {
      return markOf(neighbour).load(std::memory_order_acquire) != step;
    });
  };
  const auto over = [&] { return stopped_ || missing() == neighbours_.end(); };
  while (!over()) {
    const Status status = memory_.wait(others_, over, deadline.earlier(Deadline::after(kLook)));
    if (!status.ok() && status.code() != StatusCode::kTimeout) return status;
    const auto late = missing();
    if (late != neighbours_.end() && deadline.expired()) {
      return {StatusCode::kTimeout,
              fmt::format("{} did not bring its gradient of \"{}\" in time",
                          options_.names[late->worker], name),
              peerOf(*late)};
    }
  }
  if (stopped_) return {StatusCode::kCancelled, "the worker has left its servers"};
  return {};
}

std::span<std::byte> HostSums::blockOf(const Neighbour& neighbour, int partial, int block) const {
  const Block& b = layout_.blocks()[block];
  return neighbour.partials[partial].bytes.subspan(b.offset, b.bytes);
}

// use(leaf, neighbour, number among its partial sums) for each leaf of the whole tree that is here.
template <typename Use>
void HostSums::forEachLeaf(const Use& use) const {
  const collective::SumTree& tree = plan_.wholeTree();
  for (const Neighbour& neighbour : neighbours_) {
    for (int i = 0; i < tree.leavesOf(neighbour.worker); ++i) {
      use(tree.firstLeaf(neighbour.worker) + i, neighbour, i);
    }
  }
}

// A sum takes the place of its first term: nobody else reads the block in this step.
Result<std::vector<std::span<const std::byte>>> HostSums::sumBlock(int block) {
  const Block& b = layout_.blocks()[block];
  COLLA_TRY(awaitMarks(
      [&](const Neighbour& neighbour) -> auto& { return blockMark(neighbour.slate, block); },
      layout_.entries()[b.pieces.front().entry].name));
  std::vector<std::span<std::byte>> terms(static_cast<std::size_t>(plan_.wholeTree().leaves()));
  forEachLeaf([&](int leaf, const Neighbour& neighbour, int partial) {
    terms[leaf] = blockOf(neighbour, partial, block);
  });

  std::vector<std::span<const std::byte>> sums;
  std::vector<const std::byte*> at(terms.size());
  const int source = plan_.sourceOf(options_.worker);
  for (int i = 0; i < plan_.tree().leavesOf(source); ++i) {
    const auto nodes = plan_.below(plan_.tree().firstLeaf(source) + i);
    const std::span<std::byte> first = terms[nodes.front().leaf];
    sums.emplace_back(first);
    if (nodes.size() == 1) continue;
    for (const Piece& piece : b.pieces) {
      const Entry& entry = layout_.entries()[piece.entry];
      if (entry.kind == Kind::kCopy) continue;  // The first term is what counts.
      const std::size_t offset = piece.offset - b.offset;
      for (std::size_t leaf = 0; leaf < terms.size(); ++leaf) {
        if (!terms[leaf].empty()) at[leaf] = terms[leaf].data() + offset;
      }
      std::byte* const out = first.data() + offset;
      const collective::Folder fold(nodes, entry.type, ReduceOp::kSum);
      fold(at, {&out, 1}, piece.count);
    }
  }
  return sums;
}

Result<std::vector<std::byte>> HostSums::sumRows(int entry, int server) {
  const Entry& table = layout_.entries()[entry];
  COLLA_TRY(awaitMarks(
      [&](const Neighbour& neighbour) -> auto& { return rowsMark(neighbour.slate, entry).step; },
      table.name));
  std::vector<transport::Mapping> mappings;  // They hold the values in place.
  std::deque<std::vector<PushedRows>> pushed;
  std::vector<collective::RowsView> terms(static_cast<std::size_t>(plan_.wholeTree().leaves()));
  for (const Neighbour& neighbour : neighbours_) {
    const RowsMark& mark = rowsMark(neighbour.slate, entry);
    const int leaves = plan_.wholeTree().leavesOf(neighbour.worker);
    std::span<const std::byte> bytes;
    if (neighbour.worker == options_.worker) {
      bytes = marked_[entry];
    } else {
      COLLA_TRY_ASSIGN(mappings.emplace_back(),
                       memory_.map(peerOf(neighbour), mark.place, mark.bytes,
                                   Deadline::after(options_.timeout)));
      bytes = mappings.back().bytes;
    }
    COLLA_TRY_ASSIGN(pushed.emplace_back(), decodeRows(bytes, leaves, table.rows(), table.width()));
    for (int i = 0; i < leaves; ++i) {
      terms[plan_.wholeTree().firstLeaf(neighbour.worker) + i] = {pushed.back()[i].rows,
                                                                  pushed.back()[i].values};
    }
  }

  const int source = plan_.sourceOf(options_.worker);
  const int leaves = plan_.tree().leavesOf(source);
  RowsWriter writer(static_cast<std::size_t>(leaves), table.width());
  std::deque<collective::Rows> sums;
  std::vector<collective::RowsView> some(terms.size());
  for (const Partition& part : layout_.partitionsOf(entry)) {
    if (part.server != server) continue;
    std::ranges::transform(terms, some.begin(), [&](const collective::RowsView& term) {
      return term.within(part.begin, part.end, table.width());
    });
    for (int i = 0; i < leaves; ++i) {
      const auto nodes = plan_.below(plan_.tree().firstLeaf(source) + i);
      const collective::Rows& sum =
          sums.emplace_back(collective::addRows(nodes, some, table.width()));
      writer.add(static_cast<std::size_t>(i), sum, 0, sum.rows.size());
    }
  }
  std::vector<std::byte> bytes(writer.bytes());
  writer.write(bytes);
  return bytes;
}

}  // namespace colla::ps
