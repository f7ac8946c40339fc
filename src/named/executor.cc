#include "named/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/check.h"
#include "colla/collectives.h"
#include "collective/group_core.h"
#include "named/arithmetic.h"
#include "named/fusion.h"

namespace colla::named {
namespace {

void copy(std::span<std::byte> out, std::span<const std::byte> in) {
  if (!in.empty() && out.data() != in.data()) std::memcpy(out.data(), in.data(), in.size());
}

std::size_t bytesOf(std::span<const std::int64_t> shape, DataType type) {
  return static_cast<std::size_t>(elementsOf(shape, type).value_or(0)) * sizeOf(type);
}
std::size_t rowElements(const Announcement& what) {
  return static_cast<std::size_t>(
      elementsOf(std::span(what.shape).subspan(1), what.type).value_or(0));
}

ConstBuffer elementsIn(std::span<const std::byte> bytes, DataType type) {
  return {bytes.data(), bytes.size() / sizeOf(type), type};
}
Buffer elementsIn(std::span<std::byte> bytes, DataType type) {
  return {bytes.data(), bytes.size() / sizeOf(type), type};
}

// Integers are averaged by finish().
ReduceOp reduceOpOf(const Announcement& what) {
  switch (what.op) {
    case Op::kAverage:
      return isFloat(what.type) ? ReduceOp::kAverage : ReduceOp::kSum;
    case Op::kMin:
      return ReduceOp::kMin;
    case Op::kMax:
      return ReduceOp::kMax;
    case Op::kProduct:
      return ReduceOp::kProduct;
    case Op::kSum:
    case Op::kAdasum:
      break;
  }
  return ReduceOp::kSum;
}

void prepare(const Announcement& what, std::span<const std::byte> in, std::span<std::byte> out) {
  if (what.prescale == 1) return copy(out, in);
  scale(what.type, in, out, what.prescale);
}

// From the reduced elements to the result's.
void finish(const Announcement& what, std::span<std::byte> reduced, std::span<std::byte> out,
            int members) {
  if (what.op == Op::kAverage && !isFloat(what.type)) divide(what.type, reduced, members);
  if (what.postscale == 1) return copy(out, reduced);
  scale(what.type, reduced, out, what.postscale);
}

// What the request's owner gives; in case of an error, that is the outcome.
std::span<std::byte> ask(Work& work, std::span<const std::int64_t> shape) {
  auto given = work.request->output(shape);
  const std::size_t bytes = bytesOf(shape, work.request->type);
  if (given.ok() && given->size() != bytes) {
    given =
        Status(StatusCode::kInvalidArgument, fmt::format("the result {} needs {} bytes, but got {}",
                                                         toText(shape), bytes, given->size()));
  }
  work.outcome = given.status().withContext(
      fmt::format("memory for the result of \"{}\"", work.request->name));
  return given.ok() ? *given : std::span<std::byte>();
}

}  // namespace

Result<std::span<std::byte>> Executor::reserve(Job& job, Bucket& bucket, std::size_t bytes) {
  constexpr std::size_t kLeast = 1 << 20;
  if (bucket.bytes().size() < bytes) {
    bucket = {};  // First: there may not be room for both.
    std::size_t size = kLeast;
    while (size < bytes) size *= 2;
    // Twice as much is for later; what is needed will do.
    auto larger = job.allocate(size);
    if (!larger.ok()) larger = job.allocate(bytes);
    if (!larger.ok()) return larger.status();
    bucket = *std::move(larger);
  }
  return bucket.bytes().first(bytes);
}

Result<std::span<std::byte>> Executor::target(Work& work, std::span<const std::int64_t> shape) {
  if (work.request != nullptr) {
    const auto given = ask(work, shape);
    if (work.outcome.ok()) return given;
  }
  return reserve(job_, spare_, bytesOf(shape, work.decision->what.type));
}

Status Executor::run(Group& group, std::span<Work> batch) {
  if (batch.size() > 1) return allreduceFused(group, batch);
  Work& work = batch.front();
  switch (work.decision->what.kind) {
    case Kind::kAllreduce:
      return work.decision->what.op == Op::kAdasum ? adasum(group, work)
                                                   : allreduceAlone(group, work);
    case Kind::kAllgather:
      return allgather(group, work);
    case Kind::kBroadcast:
      return broadcast(group, work);
    case Kind::kAlltoall:
      return alltoall(group, work);
    case Kind::kReducescatter:
      return reducescatter(group, work);
    default:
      return {};  // A barrier is over when the coordinator says so.
  }
}

Status Executor::allreduceFused(Group& group, std::span<Work> batch) {
  const Announcement& like = batch.front().decision->what;
  std::size_t bytes = 0;
  for (const Work& work : batch) bytes += paddedBytes(work.decision->what);
  COLLA_TRY_ASSIGN(const auto memory, reserve(job_, fused_, bytes));
  const auto eachPart = [&](const auto& visit) {
    std::size_t offset = 0;
    for (Work& work : batch) {
      const Announcement& what = work.decision->what;
      visit(work, memory.subspan(offset, bytesOf(what.shape, what.type)));
      offset += paddedBytes(what);
    }
  };
  eachPart([&](Work& work, std::span<std::byte> part) {
    if (work.request != nullptr) {
      prepare(like, work.request->input, part);
    } else {
      std::ranges::fill(part, std::byte{0});
    }
  });
  if (bytes > 0) {
    COLLA_TRY(colla::allreduce(group, elementsIn(memory, like.type), {.op = reduceOpOf(like)}));
  }
  eachPart([&](Work& work, std::span<std::byte> part) {
    if (work.request == nullptr) return;
    const auto out = ask(work, work.decision->what.shape);
    if (work.outcome.ok()) finish(like, part, out, group.size());
  });
  return {};
}

Status Executor::allreduceAlone(Group& group, Work& work) {
  const Announcement& what = work.decision->what;
  COLLA_TRY_ASSIGN(const auto out, target(work, what.shape));
  std::span<const std::byte> in = out;
  if (work.request == nullptr) {
    std::ranges::fill(out, std::byte{0});
  } else if (what.prescale == 1) {
    in = work.request->input;
  } else {
    prepare(what, work.request->input, out);
  }
  if (!out.empty()) {
    COLLA_TRY_ASSIGN(const SliceMap map, SliceMap::even(group.size(), group.size()));
    const ConstBuffer partial = elementsIn(in, what.type);
    COLLA_TRY(colla::allreduce(group, map, {&partial, 1}, elementsIn(out, what.type),
                               {.op = reduceOpOf(what)}));
  }
  finish(what, out, out, group.size());
  return {};
}

// Pairs at distance 1, 2, 4 … combine what they have: after the last round everybody has combined
// the same pairs along the same tree, with the lower ranks on the left.
Status Executor::adasum(Group& group, Work& work) {
  const Announcement& what = work.decision->what;
  const std::size_t bytes = bytesOf(what.shape, what.type);
  COLLA_TRY_ASSIGN(const auto memory, reserve(job_, fused_, 2 * paddedBytes(what)));
  const auto mine = memory.first(bytes);
  const auto theirs = memory.subspan(paddedBytes(what), bytes);
  if (work.request != nullptr) {
    prepare(what, work.request->input, mine);
  } else {
    std::ranges::fill(mine, std::byte{0});
  }
  for (int distance = 1; distance < group.size() && bytes > 0; distance *= 2) {
    const int partner = group.rank() ^ distance;
    std::vector<std::size_t> counts(group.size());
    counts[partner] = bytes / sizeOf(what.type);
    COLLA_TRY(colla::alltoallv(group, elementsIn(mine, what.type), counts,
                               elementsIn(theirs, what.type), counts));
    if (group.rank() < partner) {
      named::adasum(what.type, mine, theirs, mine);
    } else {
      named::adasum(what.type, theirs, mine, mine);
    }
  }
  if (work.request == nullptr) return {};
  const auto out = ask(work, what.shape);
  if (work.outcome.ok()) finish(what, mine, out, group.size());
  return {};
}

Status Executor::allgather(Group& group, Work& work) {
  const Announcement& what = work.decision->what;
  std::vector<std::int64_t> shape = what.shape;
  shape.front() =
      std::accumulate(work.decision->rows.begin(), work.decision->rows.end(), std::int64_t{0});
  if (work.decision->rows.size() != static_cast<std::size_t>(group.size()) ||
      !elementsOf(shape, what.type)) {
    work.outcome = {StatusCode::kNoMemory,
                    fmt::format("\"{}\": nobody can hold what all ranks have "
                                "together, a tensor of shape {}",
                                what.key.name, toText(shape))};
    return {};  // The same on all of them.
  }
  COLLA_TRY_ASSIGN(const auto out, target(work, shape));
  if (out.empty()) return {};
  std::vector<std::size_t> counts;
  for (const std::int64_t rows : work.decision->rows) {
    counts.push_back(static_cast<std::size_t>(rows) * rowElements(what));
  }
  return colla::allgatherv(group, elementsIn(work.request->input, what.type),
                           elementsIn(out, what.type), counts);
}

Status Executor::broadcast(Group& group, Work& work) {
  const Announcement& what = work.decision->what;
  COLLA_TRY_ASSIGN(const auto out, target(work, what.shape));
  if (out.empty()) return {};
  const auto& members = group.core().options().members;
  const auto root = static_cast<int>(std::ranges::find(members, what.root) - members.begin());
  if (root == group.rank()) copy(out, work.request->input);
  return colla::broadcast(group, elementsIn(out, what.type), root);
}

Status Executor::alltoall(Group& group, Work& work) {
  const Announcement& what = work.decision->what;
  const auto members = static_cast<std::size_t>(group.size());
  std::vector<std::int64_t> rows = work.request->splits;
  if (rows.empty()) {
    rows.assign(members, work.request->shape.front() / static_cast<std::int64_t>(members));
  }
  work.received.resize(members);
  COLLA_TRY(colla::alltoall(group, rows, work.received));

  std::vector<std::int64_t> shape = what.shape;
  shape.front() = std::accumulate(work.received.begin(), work.received.end(), std::int64_t{0});
  COLLA_TRY_ASSIGN(const auto out, target(work, shape));
  std::vector<std::size_t> sends;
  std::vector<std::size_t> receives;
  for (std::size_t i = 0; i < members; ++i) {
    sends.push_back(static_cast<std::size_t>(rows[i]) * rowElements(what));
    receives.push_back(static_cast<std::size_t>(work.received[i]) * rowElements(what));
  }
  const std::size_t sent = std::accumulate(sends.begin(), sends.end(), std::size_t{0});
  const auto in = work.request->input.first(sent * sizeOf(what.type));
  return colla::alltoallv(group, elementsIn(in, what.type), sends, elementsIn(out, what.type),
                          receives);
}

// The collective takes equal parts. Where the rows can't be shared evenly, each part gets as many
// as the largest, of which the last may be nobody's.
Status Executor::reducescatter(Group& group, Work& work) {
  const Announcement& what = work.decision->what;
  const std::int64_t members = group.size();
  const std::int64_t least = what.shape.front() / members;
  const std::int64_t more = what.shape.front() % members;
  const auto rowsOf = [&](std::int64_t member) { return least + (member < more ? 1 : 0); };
  std::vector<std::int64_t> shape = what.shape;
  shape.front() = rowsOf(group.rank());
  COLLA_TRY_ASSIGN(const auto out, target(work, shape));
  if (work.request->input.empty()) return {};

  const ReduceOptions options{.op = reduceOpOf(what)};
  if (more == 0 && what.prescale == 1) {
    COLLA_TRY(colla::reduceScatter(group, elementsIn(work.request->input, what.type),
                                   elementsIn(out, what.type), options));
    finish(what, out, out, group.size());
    return {};
  }
  const std::size_t row = rowElements(what) * sizeOf(what.type);
  const std::size_t part = static_cast<std::size_t>(rowsOf(0)) * row;
  const auto parts = static_cast<std::size_t>(members);
  COLLA_TRY_ASSIGN(const auto memory, reserve(job_, fused_, (parts + 1) * part));
  std::size_t offset = 0;
  for (std::size_t member = 0; member < parts; ++member) {
    const std::size_t bytes =
        static_cast<std::size_t>(rowsOf(static_cast<std::int64_t>(member))) * row;
    const auto place = memory.subspan(member * part, part);
    prepare(what, work.request->input.subspan(offset, bytes), place.first(bytes));
    std::ranges::fill(place.subspan(bytes), std::byte{0});
    offset += bytes;
  }
  const auto reduced = memory.subspan(parts * part, part);
  COLLA_TRY(colla::reduceScatter(group, elementsIn(memory.first(parts * part), what.type),
                                 elementsIn(reduced, what.type), options));
  finish(what, reduced.first(out.size()), out, group.size());
  return {};
}

}  // namespace colla::named
