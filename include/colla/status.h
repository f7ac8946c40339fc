// The outcome of an operation: fine, or what broke, where, and what to do about it.
//
// Losing a peer, a deadline that passes and a full disk are normal in a distributed job, so the
// torch-free code returns Status or Result<T> and never throws. Values are immutable after
// construction and safe to copy between threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

namespace colla {

// Grouped by what broke, because that decides what can go on.
enum class StatusCode : std::uint8_t {
  kOk = 0,
  // The operation: this call was wrong or did not finish; everything else goes on.
  kInvalidArgument = 10,
  kNotFound = 11,
  kUnsupported = 12,
  kCancelled = 13,
  // A peer: it died, did not come in time, or was not let in.
  kPeerLost = 20,
  kTimeout = 21,
  kRefused = 22,
  // The group: its ranks no longer agree on what comes next.
  kMismatch = 30,
  kGroupBroken = 31,
  // This process: its resources or its environment.
  kIo = 40,
  kNoMemory = 41,
  kInternal = 42,
};

// A short lower-case name, such as "peer lost".
std::string_view toString(StatusCode code);

class [[nodiscard]] Status {
 public:
  // No particular peer is to blame.
  static constexpr int kNoPeer = -1;

  Status() = default;  // Fine.
  // `peer` is the process that is to blame, where one is: its rank among the job's workers (also
  // in a subgroup), or behind them for a server.
  Status(StatusCode code, std::string message, int peer = kNoPeer)
      : error_(std::make_shared<const Error>(Error{code, peer, std::move(message)})) {}

  bool ok() const { return error_ == nullptr; }
  StatusCode code() const { return ok() ? StatusCode::kOk : error_->code; }
  int peer() const { return ok() ? kNoPeer : error_->peer; }
  std::string_view message() const { return ok() ? std::string_view("ok") : error_->message; }

  // The same error with "context: " before its message; fine stays fine.
  Status withContext(std::string_view context) const;

 private:
  struct Error {
    StatusCode code;
    int peer;
    std::string message;
  };
  std::shared_ptr<const Error> error_;
};

// "peer lost: rank 2 on host b …"
std::string toString(const Status& status);
std::ostream& operator<<(std::ostream& out, const Status& status);

template <typename T>
class Result;
template <typename T>
inline constexpr bool kIsResult = false;
template <typename T>
inline constexpr bool kIsResult<Result<T>> = true;

// A value, or the reason why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}  // NOLINT(google-explicit-constructor)
  // From what converts to a T, such as a std::shared_ptr<MyData> to one of const Dataset.
  template <typename U>
  requires(!kIsResult<std::remove_cvref_t<U>> && !std::is_same_v<std::remove_cvref_t<U>, T> &&
           !std::is_arithmetic_v<T>) &&
      (std::is_convertible_v<U, T> &&
       !std::is_convertible_v<U, Status>)Result(U&& value)  // NOLINT(google-explicit-constructor)
      : state_(std::in_place_type<T>, std::forward<U>(value)) {}
  // The same for a Result of it.
  template <typename U>
  requires(!std::is_same_v<U, T> && std::is_convertible_v<U, T>)
      Result(Result<U> other)  // NOLINT(google-explicit-constructor)
      : state_(other.ok() ? State(std::in_place_type<T>, *std::move(other))
                          : State(other.status())) {}
  Result(Status status) : state_(std::move(status)) {}  // NOLINT(google-explicit-constructor)
  Result(StatusCode code, std::string message, int peer = Status::kNoPeer)
      : state_(Status(code, std::move(message), peer)) {}

  bool ok() const { return std::holds_alternative<T>(state_); }
  Status status() const { return ok() ? Status() : std::get<Status>(state_); }

  // Only when ok().
  T& operator*() & { return std::get<T>(state_); }
  const T& operator*() const& { return std::get<T>(state_); }
  T&& operator*() && { return std::get<T>(std::move(state_)); }
  T* operator->() { return &std::get<T>(state_); }
  const T* operator->() const { return &std::get<T>(state_); }

 private:
  using State = std::variant<T, Status>;
  State state_;
};

}  // namespace colla

// Returns from the enclosing function when `expression` (a Status) is an error.
#define COLLA_TRY(expression)                                                \
  do {                                                                       \
    if (::colla::Status collaTryStatus = (expression); !collaTryStatus.ok()) \
      return collaTryStatus;                                                 \
  } while (false)

#define COLLA_CONCAT_INNER(a, b) a##b
#define COLLA_CONCAT(a, b) COLLA_CONCAT_INNER(a, b)
// Declares `declaration` from a Result, or returns its error from the enclosing function.
#define COLLA_TRY_ASSIGN(declaration, expression) \
  COLLA_TRY_ASSIGN_INNER(COLLA_CONCAT(collaTryResult, __LINE__), declaration, expression)
#define COLLA_TRY_ASSIGN_INNER(name, declaration, expression) \
  auto name = (expression);                                   \
  if (!name.ok()) return name.status();                       \
  declaration = *std::move(name)
