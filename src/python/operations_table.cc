// The end of named operations that kernels use: C's types in, requests out.
#include "python/operations_table.h"

#include <pybind11/pybind11.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "colla/data_type.h"
#include "python/open_exchange.h"
#include "python/table.h"

namespace colla::python {
namespace {

namespace py = pybind11;

static_assert(COLLA_BARRIER == static_cast<int>(named::Kind::kBarrier));
static_assert(COLLA_BOOL == static_cast<int>(DataType::kBool) && COLLA_BOOL + 1 == kDataTypes);
static_assert(COLLA_INVALID_ARGUMENT == static_cast<int>(StatusCode::kInvalidArgument));
static_assert(COLLA_UNSUPPORTED == static_cast<int>(StatusCode::kUnsupported));
static_assert(COLLA_CANCELLED == static_cast<int>(StatusCode::kCancelled));
static_assert(COLLA_MISMATCH == static_cast<int>(StatusCode::kMismatch));
static_assert(COLLA_NO_MEMORY == static_cast<int>(StatusCode::kNoMemory));

std::vector<std::int64_t> listOf(CollaNumbers numbers) {
  return {numbers.values, numbers.values + numbers.count};
}
CollaNumbers viewOf(std::span<const std::int64_t> numbers) {
  return {numbers.data(), static_cast<std::int64_t>(numbers.size())};
}

// For readers of the message alone: what broke comes first, unless it is the operation itself.
std::string outcomeOf(const Status& status) {
  const bool own = status.ok() || status.code() == StatusCode::kInvalidArgument ||
                   status.code() == StatusCode::kUnsupported;
  return own ? std::string(status.message()) : toString(status);
}

std::int32_t explain(const Status& status, CollaReason* reason) {
  const std::string message = outcomeOf(status);
  const std::size_t length = std::min(message.size(), sizeof(reason->text) - 1);
  std::memcpy(reason->text, message.data(), length);
  reason->text[length] = 0;
  return static_cast<std::int32_t>(status.code());
}

std::size_t bytesOf(DataType type, std::span<const std::int64_t> shape) {
  std::size_t bytes = sizeOf(type);
  for (const std::int64_t size : shape) bytes *= static_cast<std::size_t>(size);
  return bytes;
}

named::Request requestOf(const CollaOperation& operation, const CollaPart& part, std::string name) {
  named::Request request{.name = std::move(name),
                         .kind = static_cast<named::Kind>(operation.kind),
                         .set = operation.set,
                         .type = static_cast<DataType>(part.type),
                         .shape = listOf(part.shape),
                         .op = static_cast<named::Op>(operation.op),
                         .prescale = operation.prescale,
                         .postscale = operation.postscale,
                         .root = operation.root,
                         .splits = listOf(operation.splits)};
  request.input = {static_cast<const std::byte*>(part.input), part.bytes};
  request.output = [part, type = request.type, named = request.name](
                       std::span<const std::int64_t> shape) -> Result<std::span<std::byte>> {
    const std::size_t bytes = bytesOf(type, shape);
    void* memory = part.output(part.caller, viewOf(shape));
    if (memory == nullptr && bytes > 0) {
      return {StatusCode::kNoMemory, "no memory for the result of \"" + named + "\""};
    }
    return std::span(static_cast<std::byte*>(memory), bytes);
  };
  request.done = [part](const Status& status, std::span<const std::int64_t> numbers) {
    part.done(part.caller, static_cast<std::int32_t>(status.code()), outcomeOf(status).c_str(),
              viewOf(numbers));
  };
  return request;
}

std::int32_t submit(void* self, const CollaOperation* operation, CollaReason* reason) {
  auto& open = *static_cast<OpenExchange*>(self);
  const auto exchange = open.get();
  if (!exchange.ok()) return explain(exchange.status(), reason);
  auto names = open.namesOf(static_cast<named::Kind>(operation->kind), operation->name,
                            operation->set, static_cast<std::size_t>(operation->count));
  std::vector<named::Request> requests;
  for (std::size_t i = 0; i < static_cast<std::size_t>(operation->count); ++i) {
    requests.push_back(requestOf(*operation, operation->parts[i], std::move(names[i])));
  }
  return explain(requests.size() == 1 ? (*exchange)->submit(std::move(requests.front()))
                                      : (*exchange)->submitGroup(std::move(requests)),
                 reason);
}

std::int32_t join(void* self, void* caller,
                  void (*done)(void*, std::int32_t, const char*, CollaNumbers),
                  CollaReason* reason) {
  const auto ended = [caller, done](const Status& status, int lastRank) {
    const std::int64_t number = lastRank;
    done(caller, static_cast<std::int32_t>(status.code()), outcomeOf(status).c_str(), {&number, 1});
  };
  return explain(static_cast<OpenExchange*>(self)->join(ended), reason);
}

std::int32_t number(void* self, std::int32_t what, std::int32_t set) {
  const auto& open = *static_cast<OpenExchange*>(self);
  switch (what) {
    case COLLA_RANK:
      return open.job().rank();
    case COLLA_LOCAL_RANK:
      return open.job().localRank();
    case COLLA_LOCAL_SIZE:
      return open.job().localSize();
    default:
      break;
  }
  const auto exchange = open.get();
  if (!exchange.ok()) return COLLA_NO_SUCH_SET;
  const auto sets = (*exchange)->sets();
  const auto found = sets.find(set);
  if (found == sets.end()) return COLLA_NO_SUCH_SET;
  if (what == COLLA_SIZE) return static_cast<std::int32_t>(found->second.size());
  return std::ranges::find(found->second, open.job().rank()) == found->second.end() ? 0 : 1;
}

// The table, and what keeps the exchange behind it.
struct Lent : CollaOperationsTable {
  std::shared_ptr<OpenExchange> keep;
};

Lent* lentOf(void* table) { return static_cast<Lent*>(static_cast<CollaOperationsTable*>(table)); }

}  // namespace

py::capsule tableOf(std::shared_ptr<OpenExchange> exchange) {
  OpenExchange* const self = exchange.get();
  CollaOperationsTable* const table =
      new Lent{{self, &submit, &join, &number}, std::move(exchange)};
  return py::capsule(table, COLLA_OPERATIONS_CAPSULE, [](PyObject* capsule) {
    delete lentOf(PyCapsule_GetPointer(capsule, COLLA_OPERATIONS_CAPSULE));
  });
}

}  // namespace colla::python
