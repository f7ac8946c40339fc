#include "data/image/pickle.h"

#include <fmt/format.h>

#include "data/image/pickle_machine.h"

namespace colla::data {

using Kind = PickleValue::Kind;

Result<Pickle> Pickle::parse(std::span<const std::byte> file, std::string_view name) {
  PickleMachine machine(file);
  auto pickle = machine.run();
  if (pickle.ok()) return pickle;
  return Status(StatusCode::kIo, fmt::format("{}: byte {}: {}", name, machine.position(),
                                             pickle.status().message()));
}

const PickleValue* Pickle::find(std::string_view key) const {
  if (top_ == nullptr || top_->kind != Kind::kDictionary) return nullptr;
  for (std::size_t i = 0; i + 1 < top_->items.size(); i += 2) {
    if (top_->items[i]->kind == Kind::kText && top_->items[i]->text == key) {
      return top_->items[i + 1];
    }
  }
  return nullptr;
}

// numpy pickles an array as _reconstruct(ndarray, (0,), 'b') with the state (version, shape, type,
// whether columns come first, bytes), and its type as dtype('u1', 0, 1) with a state of its own.
Result<PickledArray> arrayOf(const PickleValue& value) {
  const auto refuse = [](std::string_view why) {
    return Status(StatusCode::kIo, std::string(why));
  };
  if (value.kind != Kind::kCall || value.text != "_reconstruct" || value.items.size() != 2 ||
      value.items[1]->items.size() != 5) {
    return refuse("is not a numpy array");
  }
  const auto& state = value.items[1]->items;
  const PickleValue& shape = *state[1];
  const PickleValue& type = *state[2];
  const PickleValue& bytes = *state[4];
  if (type.kind != Kind::kCall || type.text != "dtype" || type.items.empty() ||
      type.items[0]->items.empty() || type.items[0]->items[0]->text != "u1") {
    return refuse("is not an array of unsigned bytes (uint8)");
  }
  if (state[3]->integer != 0) return refuse("has its columns first (Fortran order)");
  if (shape.kind != Kind::kSequence || bytes.kind != Kind::kText) {
    return refuse("has no shape or no bytes");
  }
  PickledArray array;
  std::int64_t count = 1;
  for (const PickleValue* length : shape.items) {
    if (length->kind != Kind::kInteger || length->integer < 0 ||
        __builtin_mul_overflow(count, length->integer, &count)) {
      return refuse("has a shape that makes no sense");
    }
    array.shape.push_back(length->integer);
  }
  if (static_cast<std::size_t>(count) != bytes.text.size()) {
    return refuse(fmt::format("has {} bytes, but a shape of {}", bytes.text.size(), count));
  }
  array.bytes = std::as_bytes(std::span(bytes.text));
  return array;
}

}  // namespace colla::data
