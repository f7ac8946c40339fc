#include "ps/declaration.h"

#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "base/invalid.h"

namespace colla::ps {
namespace {

// Each of these reads one thing of many; what is missing shows in reader.ok() in the end. The text
// of an entry's optimizer is parsed when all is known to be there.
Entry readEntry(ByteReader& reader, std::string& optimizer) {
  Entry entry;
  entry.name = reader.text();
  entry.kind = reader.number<Kind>();
  entry.type = reader.number<DataType>();
  entry.shape = reader.list<std::int64_t>();
  entry.order = reader.number<std::int32_t>();
  optimizer = reader.text();
  return entry;
}

void write(ByteWriter& writer, const Entry& entry) {
  writer.text(entry.name);
  writer.number(entry.kind);
  writer.number(entry.type);
  writer.list(std::span<const std::int64_t>(entry.shape));
  writer.number(static_cast<std::int32_t>(entry.order));
  writer.text(entry.optimizer ? toString(*entry.optimizer) : "");
}

void write(ByteWriter& writer, const std::optional<std::int64_t>& value) {
  writer.number(value.has_value());
  writer.number(value.value_or(0));
}

std::optional<std::int64_t> readOptional(ByteReader& reader) {
  const bool there = reader.number<std::uint8_t>() != 0;
  const auto value = reader.number<std::int64_t>();
  return there ? std::optional(value) : std::nullopt;
}

void write(ByteWriter& writer, const PolicyOptions& policy) {
  writer.number(policy.consistency);
  writer.number(static_cast<std::int32_t>(policy.workers));
  writer.number(static_cast<std::int32_t>(policy.backup));
  write(writer, policy.maxStaleness);
  writer.number(policy.staleness);
  write(writer, policy.limit);
}

PolicyOptions readPolicy(ByteReader& reader) {
  PolicyOptions policy;
  policy.consistency = reader.number<Consistency>();
  policy.workers = reader.number<std::int32_t>();
  policy.backup = reader.number<std::int32_t>();
  policy.maxStaleness = readOptional(reader);
  policy.staleness = reader.number<std::int64_t>();
  policy.limit = readOptional(reader);
  return policy;
}

// No value of an enum that the code does not know.
bool known(const Declaration& declaration) {
  for (const Entry& entry : declaration.entries) {
    if (entry.kind > Kind::kCopy || static_cast<int>(entry.type) >= kDataTypes) return false;
  }
  return declaration.policy.consistency <= Consistency::kSsp;
}

}  // namespace

std::vector<std::byte> encode(const Declaration& declaration) {
  ByteWriter writer;
  writer.number(static_cast<std::uint64_t>(declaration.entries.size()));
  for (const Entry& entry : declaration.entries) write(writer, entry);
  writer.number(static_cast<std::int32_t>(declaration.layout.servers));
  writer.number(static_cast<std::int32_t>(declaration.layout.partitions));
  writer.number(static_cast<std::uint64_t>(declaration.layout.blockBytes));
  writer.text(toString(declaration.optimizer));
  write(writer, declaration.policy);
  writer.number(declaration.clipNorm);
  writer.list(std::span<const int>(declaration.firstSlices));
  writer.list(std::span<const int>(declaration.hosts));
  writer.number(static_cast<std::int32_t>(declaration.threads));
  return writer.take();
}

Result<Declaration> decodeDeclaration(std::span<const std::byte> bytes) {
  const Status damaged(StatusCode::kInvalidArgument, "a damaged declaration");
  ByteReader reader(bytes);
  Declaration declaration;
  const auto entries = reader.number<std::uint64_t>();
  std::vector<std::string> optimizers;
  for (std::uint64_t i = 0; i < entries && reader.ok(); ++i) {
    declaration.entries.push_back(readEntry(reader, optimizers.emplace_back()));
  }
  declaration.layout.servers = reader.number<std::int32_t>();
  declaration.layout.partitions = reader.number<std::int32_t>();
  declaration.layout.blockBytes = reader.number<std::uint64_t>();
  const std::string optimizer = reader.text();
  declaration.policy = readPolicy(reader);
  declaration.clipNorm = reader.number<double>();
  declaration.firstSlices = reader.list<int>();
  declaration.hosts = reader.list<int>();
  declaration.threads = reader.number<std::int32_t>();
  if (!reader.done() || !known(declaration)) return damaged;
  COLLA_TRY_ASSIGN(declaration.optimizer, parseOptimizer(optimizer));
  for (std::size_t i = 0; i < optimizers.size(); ++i) {
    if (optimizers[i].empty()) continue;
    COLLA_TRY_ASSIGN(declaration.entries[i].optimizer, parseOptimizer(optimizers[i]));
  }
  return declaration;
}

Result<PushPlan> pushPlanOf(const Declaration& declaration) {
  COLLA_TRY(validate(declaration.policy));
  COLLA_TRY_ASSIGN(SliceMap map, SliceMap::of(declaration.firstSlices));
  if (map.workers() != declaration.policy.workers) {
    return invalid("its slices are for {} workers, but it counts {}", map.workers(),
                   declaration.policy.workers);
  }
  if (!declaration.hosts.empty()) {
    if (std::ssize(declaration.hosts) != map.workers()) {
      return invalid("it has the hosts of {} workers, but counts {}", declaration.hosts.size(),
                     map.workers());
    }
    if (!declaration.policy.exact()) {
      return invalid("workers of a host add their gradients only where a step takes all of them");
    }
  }
  return PushPlan(std::move(map), declaration.hosts);
}

Result<std::vector<optim::UpdateRule>> rulesOf(const Declaration& declaration) {
  std::vector<optim::UpdateRule> rules;
  for (const Entry& entry : declaration.entries) {
    COLLA_TRY_ASSIGN(optim::UpdateRule rule,
                     optim::UpdateRule::make(entry.optimizer.value_or(declaration.optimizer)));
    rules.push_back(std::move(rule));
  }
  return rules;
}

int mostSlots(std::span<const optim::UpdateRule> rules) {
  std::size_t most = 0;
  for (const optim::UpdateRule& rule : rules) most = std::max(most, rule.slots().size());
  return static_cast<int>(most);
}

}  // namespace colla::ps
