// What the store's clients and its server say to each other: frames of a length (4 bytes) and
// that many bytes, on a connection that is already authenticated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "colla/status.h"

namespace colla::rendezvous {

inline constexpr std::size_t kMaxKey = 4 * 1024;
inline constexpr std::size_t kMaxValue = 16 * 1024 * 1024;
// The longest frame of either direction: a value (or a list of that size) and what comes with it.
inline constexpr std::size_t kMaxFrame = kMaxValue + 64 * 1024;

enum class Operation : std::uint8_t {
  kSet = 1,         // key = value
  kGet = 2,         // kFound or kMissing
  kWait = 3,        // kFound, now or later
  kRemove = 4,      // kFound (what it was) or kMissing
  kAdd = 5,         // key += number, from 0 where there is none; kFound with the sum
  kCompareSet = 6,  // key = value if it has `expected`; kFound, or kConflict with what it has
  kList = 7,        // all keys below; kFound
  kWaitCount = 8,   // all keys below once there are `number` of them; kFound, now or later
  kWatch = 9,       // kChanged for what is there, kFound, then kChanged for every change
  kCancel = 10,     // forget the kWait, kWaitCount or kWatch with this id and key; no answer
};

struct Request {
  std::uint32_t id = 0;
  Operation operation = Operation::kGet;
  std::string key;  // Or a pattern that ends with '/', for kList, kWaitCount and kWatch.
  std::string value;
  std::optional<std::string> expected;  // None: the key must not exist.
  std::int64_t number = 0;
};

enum class Answer : std::uint8_t {
  kFound = 1,
  kMissing = 2,
  kConflict = 3,
  kChanged = 4,
  kError = 5,  // Of the request itself; the only entry's value says what is wrong with it.
};

struct Entry {
  std::string key;
  std::optional<std::string> value;  // None: removed, or not there.

  friend bool operator==(const Entry&, const Entry&) = default;
};

struct Response {
  std::uint32_t id = 0;  // The request's.
  Answer answer = Answer::kError;
  std::vector<Entry> entries;
};

// Whether a server would take it: keys and values within their limits, patterns where they belong.
Status checkRequest(const Request& request);

std::vector<std::byte> encodeRequest(const Request& request);
// Takes bytes from anywhere. kInvalidArgument with what is wrong with them.
Result<Request> parseRequest(std::span<const std::byte> frame);

// A response in two parts, because many may share the second.
using Body = std::shared_ptr<const std::vector<std::byte>>;
Body encodeEntries(std::span<const Entry> entries);
inline constexpr std::size_t kResponseHead = 5;
std::vector<std::byte> encodeResponseHead(std::uint32_t id, Answer answer);
Result<Response> parseResponse(std::span<const std::byte> frame);

}  // namespace colla::rendezvous
