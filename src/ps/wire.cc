#include "ps/wire.h"

#include <fmt/format.h>

#include "base/bytes.h"

namespace colla::ps {
namespace {

// Apart from those of groups, which no server is in.
constexpr std::uint32_t kGroup = 1U << 30;

Status damaged(std::string_view what) {
  return {StatusCode::kInvalidArgument, fmt::format("a damaged {}", what)};
}

}  // namespace

transport::Envelope envelopeOf(std::uint32_t channel, std::uint32_t sequence, std::uint32_t step) {
  return {.group = kGroup + channel, .sequence = sequence, .step = step, .call = {}};
}

std::vector<std::byte> encode(const Ask& ask) {
  ByteWriter writer(kAskBytes);
  writer.number(ask.topic);
  writer.number(ask.number);
  writer.number(ask.slot);
  writer.number(ask.count);
  writer.number(ask.step);
  writer.number(ask.first);
  writer.number(ask.bytes);
  writer.number(ask.place.region);
  writer.number(ask.place.offset);
  return writer.take();
}

Ask decodeAsk(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Ask ask;
  ask.topic = reader.number<Topic>();
  ask.number = reader.number<std::int32_t>();
  ask.slot = reader.number<std::int32_t>();
  ask.count = reader.number<std::uint32_t>();
  ask.step = reader.number<std::int64_t>();
  ask.first = reader.number<std::int64_t>();
  ask.bytes = reader.number<std::uint64_t>();
  ask.place.region = reader.number<std::uint32_t>();
  ask.place.offset = reader.number<std::uint64_t>();
  return ask;
}

std::vector<std::byte> encode(const Answer& answer) {
  ByteWriter writer(kAnswerBytes);
  writer.number(answer.code);
  writer.number(static_cast<std::uint8_t>(answer.stop));
  writer.number(answer.dropped);
  writer.number(answer.step);
  writer.number(answer.late);
  writer.number(answer.behind);
  writer.number(answer.scale);
  writer.number(answer.samples);
  writer.number(answer.bytes);
  return writer.take();
}

Answer decodeAnswer(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Answer answer;
  answer.code = reader.number<StatusCode>();
  answer.stop = stopOf(reader.number<std::uint8_t>());
  answer.dropped = reader.number<std::uint8_t>() != 0;
  answer.step = reader.number<std::int64_t>();
  answer.late = reader.number<std::int64_t>();
  answer.behind = reader.number<std::int64_t>();
  answer.scale = reader.number<double>();
  answer.samples = reader.number<std::int64_t>();
  answer.bytes = reader.number<std::uint64_t>();
  return answer;
}

std::vector<std::byte> encode(const Finish& finish) {
  ByteWriter writer;
  writer.number(finish.share);
  writer.number(finish.samples);
  writer.number(finish.factor);
  writer.number(finish.plateau);
  writer.number(finish.snapshotAt);
  writer.number(finish.empty);
  writer.number(static_cast<std::uint8_t>(finish.stop));
  writer.list(std::span<const std::uint8_t>(finish.present));
  writer.number(static_cast<std::uint64_t>(finish.squares.size()));
  for (const auto& [order, square] : finish.squares) {
    writer.number(order);
    writer.number(square);
  }
  return writer.take();
}

Result<Finish> decodeFinish(std::span<const std::byte> bytes, std::size_t entries) {
  ByteReader reader(bytes);
  Finish finish;
  finish.share = reader.number<double>();
  finish.samples = reader.number<std::int64_t>();
  finish.factor = reader.number<double>();
  finish.plateau = reader.number<double>();
  finish.snapshotAt = reader.number<std::int64_t>();
  finish.empty = reader.number<std::uint8_t>() != 0;
  finish.stop = stopOf(reader.number<std::uint8_t>());
  finish.present = reader.list<std::uint8_t>();
  const auto squares = reader.number<std::uint64_t>();
  for (std::uint64_t i = 0; i < squares && reader.ok(); ++i) {
    const auto order = reader.number<std::int32_t>();
    finish.squares.emplace_back(order, reader.number<double>());
  }
  if (!reader.done() || finish.present.size() != entries) return damaged("end of a step");
  return finish;
}

std::vector<std::byte> encode(const Statistics& statistics) {
  ByteWriter writer;
  writer.number(statistics.taken);
  writer.number(statistics.dropped);
  writer.number(statistics.samples);
  writer.number(static_cast<std::uint64_t>(statistics.staleness.size()));
  for (const auto& [late, count] : statistics.staleness) {
    writer.number(late);
    writer.number(count);
  }
  return writer.take();
}

Result<Statistics> decodeStatistics(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Statistics statistics;
  statistics.taken = reader.number<std::int64_t>();
  statistics.dropped = reader.number<std::int64_t>();
  statistics.samples = reader.number<std::int64_t>();
  const auto entries = reader.number<std::uint64_t>();
  for (std::uint64_t i = 0; i < entries && reader.ok(); ++i) {
    const auto late = reader.number<std::int64_t>();
    statistics.staleness[late] = reader.number<std::int64_t>();
  }
  if (!reader.done()) return damaged("statistics");
  return statistics;
}

}  // namespace colla::ps
