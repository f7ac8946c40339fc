#include "launch/agent_channel.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/bytes.h"
#include "base/invalid.h"

namespace colla::launch {
namespace {

// In two pieces, since c is a hexadecimal digit too.
constexpr std::string_view kMark =
    "\n\x01"
    "colla agent\x02\n";
constexpr std::size_t kHeader = 5;  // The length of the text, and the kind,
constexpr std::size_t kEnd = 1;     // and a line feed after it.

void setNonBlocking(int fd) {
  if (fd >= 0) fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

}  // namespace

const std::string& Fields::operator[](std::string_view name) const {
  static const std::string kNone;
  const auto it = std::ranges::find(entries_, name, &std::pair<std::string, std::string>::first);
  return it == entries_.end() ? kNone : it->second;
}

std::vector<std::string> Fields::all(std::string_view name) const {
  std::vector<std::string> values;
  for (const auto& [key, value] : entries_) {
    if (key == name) values.push_back(value);
  }
  return values;
}

std::string Fields::encode() const {
  ByteWriter writer;
  for (const auto& [name, value] : entries_) {
    writer.text(name);
    writer.text(value);
  }
  const auto bytes = writer.bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Result<Fields> Fields::parse(std::string_view text) {
  Fields fields;
  ByteReader reader(std::as_bytes(std::span(text)));
  while (reader.ok() && reader.remaining() > 0) {
    std::string name = reader.text();
    fields.entries_.emplace_back(std::move(name), reader.text());
  }
  if (!reader.ok()) return invalid("a message that ends too early");
  return fields;
}

AgentChannel::AgentChannel(UniqueFd in, UniqueFd out) : in_(std::move(in)), out_(std::move(out)) {
  setNonBlocking(in_.get());
  setNonBlocking(out_.get());
}

void AgentChannel::close() {
  in_.reset();
  out_.reset();
}

void AgentChannel::sendMark() { outgoing_ += kMark; }

void AgentChannel::send(Say kind, std::string_view text) {
  outgoing_ += asBytes(static_cast<std::uint32_t>(text.size()));
  outgoing_ += static_cast<char>(kind);
  outgoing_ += text;
  outgoing_ += '\n';  // srun passes on whole lines.
}

bool AgentChannel::flush() {
  std::size_t sent = 0;
  while (sent < outgoing_.size() && open()) {
    const ssize_t size = write(out(), outgoing_.data() + sent, outgoing_.size() - sent);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) break;
    if (size < 0) return false;
    sent += static_cast<std::size_t>(size);
  }
  outgoing_.erase(0, sent);
  return open();
}

bool AgentChannel::fill() {
  std::array<char, 64 * 1024> buffer;
  const ssize_t size = open() ? read(in(), buffer.data(), buffer.size()) : 0;
  if (size < 0 && (errno == EINTR || errno == EAGAIN)) return true;
  if (size <= 0) return false;
  incoming_.append(buffer.data(), static_cast<std::size_t>(size));
  return true;
}

Result<std::optional<AgentChannel::Message>> AgentChannel::next() {
  if (!marked_) {
    const auto at = incoming_.find(kMark);
    const std::size_t noise =
        at == std::string::npos ? incoming_.size() - std::min(incoming_.size(), kMark.size()) : at;
    // The mark's own line feed ends the noise.
    noise_.append(incoming_, 0,
                  std::min<std::size_t>(noise, 4096 - std::min<std::size_t>(noise_.size(), 4096)));
    incoming_.erase(0, at == std::string::npos ? noise : at + kMark.size());
    if (at == std::string::npos) return std::optional<Message>();
    marked_ = true;
  }
  const std::string_view rest = std::string_view(incoming_).substr(taken_);
  const auto size = fromBytes<std::uint32_t>(rest.substr(0, sizeof(std::uint32_t)));
  if (size && *size > kLongest) return invalid("a message of {} bytes", *size);
  if (!size || rest.size() < kHeader + *size + kEnd) {
    incoming_.erase(0, taken_);
    taken_ = 0;
    return std::optional<Message>();
  }
  if (rest[kHeader + *size] != '\n') return invalid("a message that does not end its line");
  Message message{static_cast<Say>(rest[kHeader - 1]), std::string(rest.substr(kHeader, *size))};
  taken_ += kHeader + *size + kEnd;
  return std::optional<Message>(std::move(message));
}

}  // namespace colla::launch
