#include "named/announce.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "named/agreement.h"
#include "named/arithmetic.h"

namespace colla::named {
namespace {

template <typename... Args>
Status invalid(const Request& request, fmt::format_string<Args...> format, Args&&... args) {
  return {
      StatusCode::kInvalidArgument,
      fmt::format("\"{}\": {}", request.name, fmt::format(format, std::forward<Args>(args)...))};
}

Status checkTensor(const Request& request) {
  const auto elements = elementsOf(request.shape, request.type);
  if (!elements) return invalid(request, "no tensor has the shape {}", toText(request.shape));
  const auto bytes = static_cast<std::size_t>(*elements) * sizeOf(request.type);
  if (request.input.size() != bytes) {
    return invalid(request, "{} {} has {} bytes, but input has {}", toString(request.type),
                   toText(request.shape), bytes, request.input.size());
  }
  if (!request.output) return invalid(request, "nothing gives the result's memory");
  return {};
}

Status checkReduction(const Request& request, std::size_t members) {
  const auto unsupported = [&](std::string text) -> Status {
    return {StatusCode::kUnsupported, fmt::format("\"{}\": {}", request.name, std::move(text))};
  };
  const bool scaled = request.prescale != 1 || request.postscale != 1;
  if (request.type == DataType::kBool && (scaled || request.op == Op::kAverage)) {
    return unsupported("booleans have neither averages nor factors");
  }
  if (request.op != Op::kAdasum) return {};
  if (request.kind != Kind::kAllreduce) {
    return unsupported(fmt::format("Adasum is an allreduce, not a {}", toString(request.kind)));
  }
  if (!isFloat(request.type)) {
    return unsupported(fmt::format("Adasum is for floats, not {}", toString(request.type)));
  }
  if (!std::has_single_bit(members)) {
    return unsupported(fmt::format("Adasum needs 1, 2, 4, 8 … members, not {}", members));
  }
  return {};
}

Status checkSplits(const Request& request, std::size_t members) {
  if (request.shape.empty()) return {};  // All ranks hear of it.
  const std::int64_t rows = request.shape.front();
  if (request.splits.empty()) {
    if (rows % static_cast<std::int64_t>(members) == 0) return {};
    return invalid(request, "{} members can't share {} rows evenly: give splits", members, rows);
  }
  if (request.splits.size() != members) {
    return invalid(request, "{} splits for {} members", request.splits.size(), members);
  }
  std::int64_t left = rows;
  for (const std::int64_t split : request.splits) {
    if (split < 0 || split > left) {
      return invalid(request, "splits {} of {} rows", toText(request.splits), rows);
    }
    left -= split;
  }
  return {};
}

}  // namespace

Result<Announcement> announce(const Request& request, std::span<const int> members) {
  if (request.name.empty()) return {StatusCode::kInvalidArgument, "a request without a name"};
  if (!request.done) return invalid(request, "nobody is told when it is done");
  Announcement what;
  what.key = {request.set, request.name};
  what.kind = request.kind;
  switch (request.kind) {
    case Kind::kBarrier:
      return what;
    case Kind::kJoin:
    case Kind::kAddSet:
    case Kind::kRemoveSet:
      return invalid(request, "{} is not for submit()", toString(request.kind));
    case Kind::kAllreduce:
    case Kind::kReducescatter:
      COLLA_TRY(checkReduction(request, members.size()));
      what.op = request.op;
      what.prescale = request.prescale;
      what.postscale = request.postscale;
      break;
    case Kind::kBroadcast:
      if (std::ranges::find(members, request.root) == members.end()) {
        return invalid(request, "root {} is not a member of process set {} ({})", request.root,
                       request.set, ranksText(members));
      }
      what.root = request.root;
      break;
    case Kind::kAlltoall:
      COLLA_TRY(checkSplits(request, members.size()));
      break;
    case Kind::kAllgather:
      break;
  }
  COLLA_TRY(checkTensor(request));
  what.type = request.type;
  what.shape = request.shape;
  return what;
}

}  // namespace colla::named
