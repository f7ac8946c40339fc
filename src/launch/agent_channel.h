// What `colla run` and its agent on a host say to each other, over the standard input and output of
// the ssh between them. See agent.h for who says what.
//
// Nothing here blocks. Not thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "colla/status.h"

namespace colla::launch {

enum class Say : std::uint8_t {
  // From the front.
  kCheck = 1,  // Fields: what the job needs of the host.
  kReach,      // Fields: addresses to try to connect to.
  kStart,      // Fields: the processes, and the job's secret.
  kOrder,      // An Order (guardian.h).
  kInput,      // For worker 0's standard input; empty: its end.
  kServe,      // For the kMeasure of a different host.
  kMeasure,    // Fields: the address of the host to measure the way to.
  kPause,      // The front is stopped for a while: do not wait for beats.
  // From the agent.
  kFacts,       // Fields: what the host is and has (host_facts.h). Always the first.
  kChecked,     // Fields: what is wrong, and where the agent listens.
  kReached,     // Fields: how it went with each address.
  kMeasured,    // Fields: what came of kMeasure.
  kEvent,       // An Event (guardian.h).
  kOutput,      // Of a process: number, stream, bytes.
  kInputTaken,  // All input that came so far: more may come.
  // From both.
  kBeat,  // All is well.
};

// Names with values, in order; a name may come several times.
class Fields {
 public:
  void add(std::string_view name, std::string_view value) { entries_.emplace_back(name, value); }
  // The first of that name; empty where there is none.
  const std::string& operator[](std::string_view name) const;
  std::vector<std::string> all(std::string_view name) const;
  const std::vector<std::pair<std::string, std::string>>& entries() const { return entries_; }

  std::string encode() const;
  static Result<Fields> parse(std::string_view text);

 private:
  std::vector<std::pair<std::string, std::string>> entries_;
};

class AgentChannel {
 public:
  struct Message {
    Say kind;
    std::string text;
  };
  // The limit of what one message may be.
  static constexpr std::size_t kLongest = 64 * 1024 * 1024;

  // Descriptors of two directions, or the same one twice; they become non-blocking.
  AgentChannel(UniqueFd in, UniqueFd out);
  AgentChannel(AgentChannel&&) = default;
  AgentChannel& operator=(AgentChannel&&) = default;

  int in() const { return in_.get(); }
  int out() const { return out_.valid() ? out_.get() : in_.get(); }
  bool open() const { return in_.valid(); }
  void close();

  // Before the first message: the other side skips what a login shell may have said before it.
  void sendMark();
  void expectMark() { marked_ = false; }
  // What came instead of a mark, for messages.
  const std::string& noise() const { return noise_; }

  void send(Say kind, std::string_view text = "");
  std::size_t queued() const { return outgoing_.size(); }
  // Writes and reads what goes without waiting. False once the other side is gone.
  bool flush();
  bool fill();
  // The next message that is complete. kInvalidArgument for what is none.
  Result<std::optional<Message>> next();

 private:
  UniqueFd in_;
  UniqueFd out_;  // Invalid where `in_` is both.
  std::string incoming_;
  std::size_t taken_ = 0;  // Of `incoming_`.
  std::string outgoing_;
  std::string noise_;
  bool marked_ = true;
};

// A plain struct as the bytes of a message, and back; nothing for other sizes.
template <typename T>
std::string_view asBytes(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}
template <typename T>
std::optional<T> fromBytes(std::string_view text) {
  if (text.size() != sizeof(T)) return std::nullopt;
  T value;
  text.copy(reinterpret_cast<char*>(&value), sizeof(T));
  return value;
}

}  // namespace colla::launch
