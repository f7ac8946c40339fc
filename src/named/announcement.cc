#include "named/announcement.h"

#include <fmt/ranges.h>

#include <bit>

#include "base/bytes.h"
#include "base/status_code.h"

namespace colla::named {
namespace {

constexpr std::size_t kMostDimensions = 1 << 16;
// The fewest bytes of each, so that a count can be judged by what is left.
constexpr std::size_t kLeastAnnouncement = 39;
constexpr std::size_t kLeastDecision = 52;

void put(ByteWriter& writer, double value) { writer.number(std::bit_cast<std::uint64_t>(value)); }
double getDouble(ByteReader& reader) {
  return std::bit_cast<double>(reader.number<std::uint64_t>());
}

template <typename T>
void putAll(ByteWriter& writer, const std::vector<T>& values) {
  writer.number(static_cast<std::uint32_t>(values.size()));
  for (const T value : values) writer.number(value);
}
// Empty, and `sound` false, where the count is nonsense.
template <typename T>
std::vector<T> getAll(ByteReader& reader, std::size_t most, bool& sound) {
  const auto count = reader.number<std::uint32_t>();
  sound &= reader.ok() && count <= most && count <= reader.remaining() / sizeof(T);
  std::vector<T> values(sound ? count : 0);
  for (T& value : values) value = reader.number<T>();
  return values;
}

template <typename T>
T getEnum(ByteReader& reader, T last, bool& sound) {
  const auto value = reader.number<std::uint8_t>();
  sound &= value <= static_cast<std::uint8_t>(last);
  return static_cast<T>(sound ? value : 0);
}

void put(ByteWriter& writer, const Status& status) {
  writer.number(status.code());
  if (status.ok()) return;
  writer.number(static_cast<std::int32_t>(status.peer()));
  writer.text(status.message());
}
Status getStatus(ByteReader& reader) {
  const auto code = reader.number<std::uint8_t>();
  if (code == 0) return {};
  const auto peer = reader.number<std::int32_t>();
  std::string message = reader.text();
  return {errorCode(code).value_or(StatusCode::kInternal), std::move(message), peer};
}

void put(ByteWriter& writer, const Announcement& what) {
  writer.number(static_cast<std::int32_t>(what.key.set));
  writer.text(what.key.name);
  writer.number(what.kind);
  writer.number(what.type);
  putAll(writer, what.shape);
  writer.number(what.op);
  put(writer, what.prescale);
  put(writer, what.postscale);
  writer.number(static_cast<std::int32_t>(what.root));
  writer.number(what.group.count);
  if (what.group.count > 0) writer.text(what.group.first);
}

Announcement getAnnouncement(ByteReader& reader, bool& sound) {
  Announcement what;
  what.key.set = reader.number<std::int32_t>();
  what.key.name = reader.text();
  what.kind = getEnum(reader, Kind::kRemoveSet, sound);
  what.type = getEnum(reader, DataType::kBool, sound);
  what.shape = getAll<std::int64_t>(reader, kMostDimensions, sound);
  what.op = getEnum(reader, Op::kAdasum, sound);
  what.prescale = getDouble(reader);
  what.postscale = getDouble(reader);
  what.root = reader.number<std::int32_t>();
  what.group.count = reader.number<std::uint32_t>();
  if (what.group.count > 0) what.group.first = reader.text();
  const bool own = what.kind >= Kind::kJoin;
  sound &= own == (what.key.set == kOwnSet);
  sound &= what.kind == Kind::kAddSet || elementsOf(what.shape, what.type).has_value();
  return what;
}

void put(ByteWriter& writer, const Decision& decision) {
  put(writer, decision.what);
  putAll(writer, decision.rows);
  writer.number(static_cast<std::int32_t>(decision.number));
  put(writer, decision.error);
  putAll(writer, decision.ranks);
}

Decision getDecision(ByteReader& reader, bool& sound) {
  Decision decision;
  decision.what = getAnnouncement(reader, sound);
  decision.rows = getAll<std::int64_t>(reader, ~std::size_t{0}, sound);
  decision.number = reader.number<std::int32_t>();
  decision.error = getStatus(reader);
  decision.ranks = getAll<int>(reader, ~std::size_t{0}, sound);
  std::int64_t left = std::int64_t{1} << 60;
  for (const std::int64_t rows : decision.rows) {
    sound &= rows >= 0 && rows <= left;
    if (sound) left -= rows;
  }
  return decision;
}

// What travels as one is reduced as one.
bool alike(const Decision& a, const Decision& b) {
  return a.error.ok() && b.error.ok() && a.what.kind == Kind::kAllreduce &&
         b.what.kind == Kind::kAllreduce && a.what.key.set == b.what.key.set &&
         a.what.type == b.what.type && a.what.op == b.what.op;
}

Status damaged(std::string_view what) {
  return {StatusCode::kMismatch, fmt::format("{} is damaged", what)};
}

}  // namespace

std::vector<std::byte> encode(const Report& report) {
  ByteWriter writer;
  put(writer, report.end);
  writer.number(static_cast<std::uint32_t>(report.announcements.size()));
  for (const Announcement& what : report.announcements) put(writer, what);
  return writer.take();
}

Result<Report> decodeReport(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Report report;
  report.end = getStatus(reader);
  const auto count = reader.number<std::uint32_t>();
  bool sound = reader.ok() && count <= reader.remaining() / kLeastAnnouncement;
  for (std::uint32_t i = 0; sound && i < count; ++i) {
    report.announcements.push_back(getAnnouncement(reader, sound));
    sound &= reader.ok();
  }
  if (!sound || !reader.done()) return damaged("a rank's report");
  return report;
}

std::vector<std::byte> encode(const Orders& orders) {
  ByteWriter writer;
  put(writer, orders.end);
  writer.number(static_cast<std::uint32_t>(orders.batches.size()));
  for (const Batch& batch : orders.batches) {
    writer.number(static_cast<std::uint32_t>(batch.size()));
    for (const Decision& decision : batch) put(writer, decision);
  }
  return writer.take();
}

Result<Orders> decodeOrders(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Orders orders;
  orders.end = getStatus(reader);
  const auto batches = reader.number<std::uint32_t>();
  bool sound = reader.ok() && batches <= reader.remaining() / kLeastDecision;
  for (std::uint32_t i = 0; sound && i < batches; ++i) {
    Batch& batch = orders.batches.emplace_back();
    const auto count = reader.number<std::uint32_t>();
    sound = reader.ok() && count > 0 && count <= reader.remaining() / kLeastDecision;
    for (std::uint32_t j = 0; sound && j < count; ++j) {
      batch.push_back(getDecision(reader, sound));
      sound &= reader.ok() && (j == 0 || alike(batch.front(), batch.back()));
    }
  }
  if (!sound || !reader.done()) return damaged("the coordinator's orders");
  return orders;
}

std::optional<std::int64_t> elementsOf(std::span<const std::int64_t> shape, DataType type) {
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 60;
  const std::int64_t most = kMostBytes / static_cast<std::int64_t>(sizeOf(type));
  std::int64_t elements = 1;
  bool none = false;  // A zero later on makes up for what would be too many.
  for (const std::int64_t dimension : shape) {
    if (dimension < 0) return std::nullopt;
    none |= dimension == 0;
  }
  if (none) return 0;
  for (const std::int64_t dimension : shape) {
    if (dimension > most / elements) return std::nullopt;
    elements *= dimension;
  }
  return elements;
}

std::string toText(std::span<const std::int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace colla::named
