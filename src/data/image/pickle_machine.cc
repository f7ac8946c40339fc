#include "data/image/pickle_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace colla::data {
namespace {

// Python's names for the instructions that we know.
enum Instruction : unsigned {
  kMark = '(',
  kStop = '.',
  kNone = 'N',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kLong1 = 0x8a,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kBinString = 'T',
  kShortBinString = 'U',
  kBinUnicode = 'X',
  kShortBinUnicode = 0x8c,
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kBinBytes8 = 0x8e,
  kEmptyTuple = ')',
  kTuple = 't',
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kEmptyList = ']',
  kAppend = 'a',
  kAppends = 'e',
  kEmptyDict = '}',
  kSetItem = 's',
  kSetItems = 'u',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kMemoize = 0x94,
  kBinGet = 'h',
  kLongBinGet = 'j',
  kGlobal = 'c',
  kStackGlobal = 0x93,
  kReduce = 'R',
  kBuild = 'b',
  kProto = 0x80,
  kFrame = 0x95,
};

struct Function {
  std::string_view module;
  std::string_view name;
};
constexpr std::array kFunctions = {
    Function{"numpy.core.multiarray", "_reconstruct"},
    Function{"numpy._core.multiarray", "_reconstruct"},
    Function{"numpy", "ndarray"},
    Function{"numpy", "dtype"},
};

Status wrong(std::string message) { return {StatusCode::kIo, std::move(message)}; }
Status unknown() { return {StatusCode::kUnsupported, ""}; }

}  // namespace

Result<Pickle> PickleMachine::run() {
  constexpr unsigned kNewestProtocol = 4;
  if (rest_.number<std::uint8_t>() != kProto || !rest_.ok()) {
    return wrong("not a pickle of protocol 2 or later");
  }
  if (const unsigned protocol = rest_.number<std::uint8_t>(); protocol > kNewestProtocol) {
    return wrong(
        fmt::format("a pickle of protocol {}; we read 2 to {}", protocol, kNewestProtocol));
  }
  while (true) {
    const unsigned instruction = rest_.number<std::uint8_t>();
    if (!rest_.ok()) return wrong("the pickle ends in the middle");
    if (instruction == kStop) break;
    Status status = step(instruction);
    if (!rest_.ok()) return wrong("the pickle ends in the middle");
    if (status.code() == StatusCode::kUnsupported) {
      return wrong(
          fmt::format("instruction 0x{:02x} does not belong into an image batch", instruction));
    }
    if (!status.ok()) return status;
  }
  if (stack_.size() != 1 || !marks_.empty()) return wrong("the pickle leaves no single value");
  result_.top_ = stack_.front();
  return std::move(result_);
}

Status PickleMachine::step(unsigned instruction) {
  using Step = Status (PickleMachine::*)(unsigned);
  for (const Step perform :
       {&PickleMachine::pushNumber, &PickleMachine::pushText, &PickleMachine::remember,
        &PickleMachine::collect, &PickleMachine::call}) {
    Status status = (this->*perform)(instruction);
    if (status.code() != StatusCode::kUnsupported) return status;
  }
  return unknown();
}

Status PickleMachine::pushNumber(unsigned instruction) {
  switch (instruction) {
    case kNone:
      return push({});
    case kNewTrue:
      return pushInteger(1);
    case kNewFalse:
      return pushInteger(0);
    case kBinInt:
      return pushInteger(rest_.number<std::int32_t>());
    case kBinInt1:
      return pushInteger(rest_.number<std::uint8_t>());
    case kBinInt2:
      return pushInteger(rest_.number<std::uint16_t>());
    case kLong1: {
      const auto bytes = rest_.raw(rest_.number<std::uint8_t>());
      if (bytes.size() > sizeof(std::int64_t)) return wrong("a number of more than 64 bits");
      // Little-endian, the last bit is the sign.
      std::uint64_t value = 0;
      const bool negative = !bytes.empty() && std::to_integer<int>(bytes.back()) >= 128;
      if (negative) value = ~std::uint64_t{0};
      for (std::size_t i = bytes.size(); i-- > 0;) {
        value = value << 8 | std::to_integer<std::uint64_t>(bytes[i]);
      }
      return pushInteger(static_cast<std::int64_t>(value));
    }
    default:
      return unknown();
  }
}

Status PickleMachine::pushText(unsigned instruction) {
  switch (instruction) {
    case kShortBinString:
    case kShortBinUnicode:
    case kShortBinBytes:
      return pushBytes(rest_.number<std::uint8_t>());
    case kBinString:
    case kBinUnicode:
    case kBinBytes:
      return pushBytes(rest_.number<std::uint32_t>());
    case kBinBytes8:
      return pushBytes(rest_.number<std::uint64_t>());
    default:
      return unknown();
  }
}

Status PickleMachine::remember(unsigned instruction) {
  switch (instruction) {
    case kProto:
      rest_.raw(1);
      return {};
    case kFrame:  // A hint of how much to read at once.
      rest_.raw(8);
      return {};
    case kBinGet:
      return recall(rest_.number<std::uint8_t>());
    case kLongBinGet:
      return recall(rest_.number<std::uint32_t>());
    case kBinPut:
    case kLongBinPut:
    case kMemoize: {
      const std::uint64_t number = instruction == kBinPut    ? rest_.number<std::uint8_t>()
                                   : instruction == kMemoize ? memo_.size()
                                                             : rest_.number<std::uint32_t>();
      if (stack_.empty()) return wrong("nothing to remember");
      memo_[number] = stack_.back();
      return {};
    }
    default:
      return unknown();
  }
}

Status PickleMachine::collect(unsigned instruction) {
  switch (instruction) {
    case kMark:
      // Marks cost memory as values do.
      if (marks_.size() == Pickle::kMaxValues) return wrong("too many marks");
      marks_.push_back(stack_.size());
      return {};
    case kEmptyTuple:
    case kEmptyList:
      return push({.kind = Kind::kSequence});
    case kEmptyDict:
      return push({.kind = Kind::kDictionary});
    case kTuple1:
    case kTuple2:
    case kTuple3:
      return pushSequence(instruction - kTuple1 + 1);
    case kTuple: {
      COLLA_TRY_ASSIGN(auto items, takeMarked());
      return push({.kind = Kind::kSequence, .items = std::move(items)});
    }
    case kAppend:
    case kSetItem: {
      const std::size_t count = instruction == kAppend ? 1 : 2;
      COLLA_TRY_ASSIGN(PickleValue* const to,
                       top(count, instruction == kAppend ? Kind::kSequence : Kind::kDictionary));
      to->items.insert(to->items.end(), stack_.end() - static_cast<std::ptrdiff_t>(count),
                       stack_.end());
      stack_.resize(stack_.size() - count);
      return {};
    }
    case kAppends:
    case kSetItems: {
      COLLA_TRY_ASSIGN(const auto items, takeMarked());
      COLLA_TRY_ASSIGN(PickleValue* const to,
                       top(0, instruction == kAppends ? Kind::kSequence : Kind::kDictionary));
      if (instruction == kSetItems && items.size() % 2 != 0) return wrong("a key without a value");
      to->items.insert(to->items.end(), items.begin(), items.end());
      return {};
    }
    default:
      return unknown();
  }
}

Status PickleMachine::call(unsigned instruction) {
  switch (instruction) {
    case kGlobal: {
      COLLA_TRY_ASSIGN(const auto module, line());
      COLLA_TRY_ASSIGN(const auto function, line());
      return pushFunction(module, function);
    }
    case kStackGlobal: {
      COLLA_TRY_ASSIGN(const PickleValue* const module, top(1, Kind::kText));
      COLLA_TRY_ASSIGN(const PickleValue* const function, top(0, Kind::kText));
      stack_.resize(stack_.size() - 2);
      return pushFunction(module->text, function->text);
    }
    case kReduce: {
      COLLA_TRY_ASSIGN(const PickleValue* const function, top(1, Kind::kFunction));
      COLLA_TRY_ASSIGN(const PickleValue* const arguments, top(0, Kind::kSequence));
      stack_.resize(stack_.size() - 2);
      return push({.kind = Kind::kCall, .text = function->text, .items = {arguments}});
    }
    case kBuild: {
      COLLA_TRY_ASSIGN(PickleValue* const made, top(1, Kind::kCall));
      COLLA_TRY_ASSIGN(const PickleValue* const state, top(0, Kind::kSequence));
      if (made->items.size() != 1) return wrong("a state that is set twice");
      made->items.push_back(state);
      stack_.pop_back();
      return {};
    }
    default:
      return unknown();
  }
}

Status PickleMachine::push(PickleValue value) {
  if (result_.values_.size() == Pickle::kMaxValues) {
    return wrong(fmt::format("more than {} values", Pickle::kMaxValues));
  }
  stack_.push_back(&result_.values_.emplace_back(std::move(value)));
  return {};
}

Status PickleMachine::pushInteger(std::int64_t value) {
  return push({.kind = Kind::kInteger, .integer = value});
}

Status PickleMachine::pushBytes(std::uint64_t length) {
  const auto bytes = rest_.raw(length);
  return push(
      {.kind = Kind::kText, .text = {reinterpret_cast<const char*>(bytes.data()), bytes.size()}});
}

Status PickleMachine::pushSequence(std::size_t count) {
  if (count > stack_.size() || (!marks_.empty() && stack_.size() - count < marks_.back())) {
    return wrong("a tuple of more values than there are");
  }
  PickleValue tuple{.kind = Kind::kSequence};
  tuple.items.assign(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
  stack_.resize(stack_.size() - count);
  return push(std::move(tuple));
}

Status PickleMachine::pushFunction(std::string_view module, std::string_view function) {
  const bool known = std::ranges::any_of(kFunctions, [&](const Function& one) {
    return one.module == module && one.name == function;
  });
  if (!known) {
    return wrong(
        fmt::format("wants to call {}.{}, which no image batch needs: refused", module, function));
  }
  return push({.kind = Kind::kFunction, .text = function});
}

Result<PickleValue*> PickleMachine::top(std::size_t depth, Kind kind) {
  // What lies below a mark is out of reach.
  const std::size_t floor = marks_.empty() ? 0 : marks_.back();
  if (stack_.size() < floor + depth + 1) return wrong("too few values");
  PickleValue* const value = stack_[stack_.size() - 1 - depth];
  if (value->kind != kind) return wrong("a value of another kind than it has to be");
  return value;
}

Result<std::vector<const PickleValue*>> PickleMachine::takeMarked() {
  if (marks_.empty()) return wrong("no mark");
  const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  std::vector<const PickleValue*> items(begin, stack_.end());
  stack_.erase(begin, stack_.end());
  marks_.pop_back();
  return items;
}

Status PickleMachine::recall(std::uint64_t number) {
  const auto found = memo_.find(number);
  if (found == memo_.end()) return wrong(fmt::format("nothing was remembered as {}", number));
  if (stack_.size() == Pickle::kMaxValues) return wrong("too many values");
  stack_.push_back(found->second);
  return {};
}

Result<std::string_view> PickleMachine::line() {
  const std::size_t begin = position();
  while (rest_.ok()) {
    if (rest_.number<char>() == '\n' && rest_.ok()) break;
  }
  const char* text = reinterpret_cast<const char*>(file_.data()) + begin;
  return std::string_view(text, rest_.ok() ? position() - begin - 1 : 0);
}

}  // namespace colla::data
