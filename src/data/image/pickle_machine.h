// The stack machine behind Pickle::parse.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/bytes.h"
#include "data/image/pickle.h"

namespace colla::data {

// Used once, not thread safe.
class PickleMachine {
 public:
  explicit PickleMachine(std::span<const std::byte> file) : file_(file), rest_(file) {}

  // An error says what is wrong, not where.
  Result<Pickle> run();
  // Where it stands in the file.
  std::size_t position() const { return file_.size() - rest_.remaining(); }

 private:
  using Kind = PickleValue::Kind;

  Status step(unsigned instruction);
  // Instructions by what they do; kUnsupported for one that does something else.
  Status pushNumber(unsigned instruction);
  Status pushText(unsigned instruction);
  Status remember(unsigned instruction);
  Status collect(unsigned instruction);
  Status call(unsigned instruction);

  Status push(PickleValue value);
  Status pushInteger(std::int64_t value);
  Status pushBytes(std::uint64_t length);
  Status pushSequence(std::size_t count);
  Status pushFunction(std::string_view module, std::string_view function);
  // The value `depth` below the top, of a kind.
  Result<PickleValue*> top(std::size_t depth, Kind kind);
  // Takes the values since the last mark off the stack.
  Result<std::vector<const PickleValue*>> takeMarked();
  Status recall(std::uint64_t number);
  Result<std::string_view> line();

  std::span<const std::byte> file_;
  ByteReader rest_;
  Pickle result_;
  std::vector<PickleValue*> stack_;
  std::vector<std::size_t> marks_;  // Heights of the stack.
  std::unordered_map<std::uint64_t, PickleValue*> memo_;
};

}  // namespace colla::data
