#include "ps/wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ps/byte_reader.h"

namespace colla::ps {
namespace {

using Json = nlohmann::json;

// Apart from those of groups, which no server is in.
constexpr std::uint32_t kGroup = 1U << 30;

Status damaged(std::string_view what) {
  return {StatusCode::kInvalidArgument, fmt::format("a damaged {}", what)};
}

Json toJson(const Entry& entry) {
  return {{"name", entry.name},
          {"kind", static_cast<int>(entry.kind)},
          {"type", static_cast<int>(entry.type)},
          {"shape", entry.shape},
          {"order", entry.order}};
}

Entry entryOf(const Json& json) {
  return {.name = json.at("name"),
          .kind = static_cast<Kind>(std::clamp<int>(json.at("kind"), 0, 4)),
          .type = static_cast<DataType>(std::clamp<int>(json.at("type"), 0, kDataTypes - 1)),
          .shape = json.at("shape"),
          .order = json.at("order")};
}

}  // namespace

transport::Envelope envelopeOf(std::uint32_t channel, std::uint32_t sequence, std::uint32_t step) {
  return {.group = kGroup + channel, .sequence = sequence, .step = step, .call = {}};
}

std::string encode(const Declaration& declaration) {
  Json entries = Json::array();
  for (const Entry& entry : declaration.entries) entries.push_back(toJson(entry));
  const PolicyOptions& policy = declaration.policy;
  const Json json = {{"entries", entries},
                     {"servers", declaration.layout.servers},
                     {"partitions", declaration.layout.partitions},
                     {"block_bytes", declaration.layout.blockBytes},
                     {"optimizer", toString(declaration.optimizer)},
                     {"consistency", static_cast<int>(policy.consistency)},
                     {"workers", policy.workers},
                     {"backup", policy.backup},
                     {"max_staleness", policy.maxStaleness.value_or(-1)},
                     {"staleness", policy.staleness},
                     {"limit", policy.limit.value_or(-1)},
                     {"clip_norm", declaration.clipNorm},
                     {"first_slices", declaration.firstSlices},
                     {"threads", declaration.threads}};
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

Result<Declaration> decodeDeclaration(std::string_view text) {
  // The library throws for a value that is missing or of another type.
  try {
    const Json json = Json::parse(text);
    Declaration declaration;
    for (const Json& entry : json.at("entries")) declaration.entries.push_back(entryOf(entry));
    declaration.layout.servers = json.at("servers");
    declaration.layout.partitions = json.at("partitions");
    declaration.layout.blockBytes = json.at("block_bytes");
    COLLA_TRY_ASSIGN(declaration.optimizer,
                     parseOptimizer(json.at("optimizer").get<std::string>()));
    PolicyOptions& policy = declaration.policy;
    policy.consistency = static_cast<Consistency>(std::clamp<int>(json.at("consistency"), 0, 2));
    policy.workers = json.at("workers");
    policy.backup = json.at("backup");
    const std::int64_t most = json.at("max_staleness");
    if (most >= 0) policy.maxStaleness = most;
    policy.staleness = json.at("staleness");
    const std::int64_t limit = json.at("limit");
    if (limit >= 0) policy.limit = limit;
    declaration.clipNorm = json.at("clip_norm");
    declaration.firstSlices = json.at("first_slices").get<std::vector<int>>();
    declaration.threads = json.at("threads");
    return declaration;
  } catch (const Json::exception& error) {
    return {StatusCode::kInvalidArgument, fmt::format("a damaged declaration: {}", error.what())};
  }
}

std::vector<std::byte> encode(const Finish& finish) {
  ByteWriter writer;
  writer.put(finish.share);
  writer.put(finish.samples);
  writer.put(finish.factor);
  writer.put<std::uint8_t>(finish.empty ? 1 : 0);
  writer.put<std::uint8_t>(finish.stop ? 1 : 0);
  writer.putAll(std::span<const std::uint8_t>(finish.present));
  writer.put(static_cast<std::uint64_t>(finish.squares.size()));
  for (const auto& [order, square] : finish.squares) {
    writer.put(order);
    writer.put(square);
  }
  return writer.take();
}

Result<Finish> decodeFinish(std::span<const std::byte> bytes, std::size_t entries) {
  ByteReader reader(bytes);
  Finish finish;
  finish.share = reader.get<double>();
  finish.samples = reader.get<std::int64_t>();
  finish.factor = reader.get<double>();
  finish.empty = reader.get<std::uint8_t>() != 0;
  finish.stop = reader.get<std::uint8_t>() != 0;
  finish.present = reader.getAll<std::uint8_t>();
  const auto squares = reader.get<std::uint64_t>();
  for (std::uint64_t i = 0; i < squares && reader.ok(); ++i) {
    const auto order = reader.get<std::int32_t>();
    finish.squares.emplace_back(order, reader.get<double>());
  }
  if (!reader.done() || finish.present.size() != entries) return damaged("end of a step");
  return finish;
}

std::vector<std::byte> encode(const Order& order) {
  ByteWriter writer;
  writer.putAll(std::span<const int>(order.decision.take));
  writer.putAll(std::span<const Drop>(order.decision.drop));
  writer.putAll(std::span<const int>(order.decision.release));
  writer.put<std::uint8_t>(order.decision.whole ? 1 : 0);
  writer.put<std::uint8_t>(order.snapshot ? 1 : 0);
  writer.putText(order.failure);
  return writer.take();
}

Result<Order> decodeOrder(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Order order;
  order.decision.take = reader.getAll<int>();
  order.decision.drop = reader.getAll<Drop>();
  order.decision.release = reader.getAll<int>();
  order.decision.whole = reader.get<std::uint8_t>() != 0;
  order.snapshot = reader.get<std::uint8_t>() != 0;
  order.failure = reader.getText();
  if (!reader.done()) return damaged("decision");
  return order;
}

std::vector<std::byte> encode(const Statistics& statistics) {
  ByteWriter writer;
  writer.put(statistics.taken);
  writer.put(statistics.dropped);
  writer.put(statistics.samples);
  writer.put(static_cast<std::uint64_t>(statistics.staleness.size()));
  for (const auto& [late, count] : statistics.staleness) {
    writer.put(late);
    writer.put(count);
  }
  return writer.take();
}

Result<Statistics> decodeStatistics(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Statistics statistics;
  statistics.taken = reader.get<std::int64_t>();
  statistics.dropped = reader.get<std::int64_t>();
  statistics.samples = reader.get<std::int64_t>();
  const auto entries = reader.get<std::uint64_t>();
  for (std::uint64_t i = 0; i < entries && reader.ok(); ++i) {
    const auto late = reader.get<std::int64_t>();
    statistics.staleness[late] = reader.get<std::int64_t>();
  }
  if (!reader.done()) return damaged("statistics");
  return statistics;
}

}  // namespace colla::ps
