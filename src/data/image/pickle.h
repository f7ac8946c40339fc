// Reads the pickles that CIFAR's Python batches are, without executing anything.
//
// A pickle is a program for a small stack machine that may call any function of Python. This one
// knows the instructions that make numbers, texts, tuples, lists and dictionaries (protocols 2 to
// 4), and calls nothing: numpy's arrays are recognised by the names of the functions that would
// make them, and every other function is refused by its name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string_view>
#include <vector>

#include "colla/status.h"

namespace colla::data {

struct PickleValue {
  enum class Kind : std::uint8_t {
    kNone,
    kInteger,   // Also True and False.
    kText,      // Bytes, str and unicode.
    kSequence,  // Tuples and lists.
    kDictionary,
    kFunction,  // Only those that make arrays; `text` is its name.
    kCall,      // Of a function, which was not called: items are its arguments, and its state.
  };
  Kind kind = Kind::kNone;
  std::int64_t integer = 0;
  std::string_view text{};  // Lies in the file.
  // Elements, or keys and values in turn.
  std::vector<const PickleValue*> items{};
};

// Move only; the file must outlive it.
class Pickle {
 public:
  // No more values than these are made, whatever the file says.
  static constexpr std::size_t kMaxValues = 1 << 20;

  // kIo, with `name` and the place, for bytes that are no such pickle.
  static Result<Pickle> parse(std::span<const std::byte> file, std::string_view name);
  Pickle(Pickle&&) = default;
  Pickle& operator=(Pickle&&) = default;

  // What it holds under `key`; null where it is no dictionary, or has no such key.
  const PickleValue* find(std::string_view key) const;

 private:
  friend class PickleMachine;
  Pickle() = default;
  std::deque<PickleValue> values_;  // Stay where they are.
  const PickleValue* top_ = nullptr;
};

// An array of unsigned bytes, row by row.
struct PickledArray {
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;  // As many as the shape says.
};
// kIo, without a name in front, for a value that is none.
Result<PickledArray> arrayOf(const PickleValue& value);

}  // namespace colla::data
