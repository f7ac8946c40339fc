#include "transport/net/hello.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/bytes.h"

namespace colla::transport::net {
namespace {

Status refusal(std::string message, int peer = Status::kNoPeer) {
  return {StatusCode::kRefused, std::move(message), peer};
}

// "name=value" lines by name.
std::map<std::string_view, std::string_view> settingLines(std::string_view text) {
  std::map<std::string_view, std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (!line.empty()) lines[line.substr(0, line.find('='))] = line;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string differingSettings(const Hello& theirs, const Hello& ours, std::string_view self) {
  const auto their = settingLines(theirs.identity.settings);
  const auto our = settingLines(ours.identity.settings);
  std::map<std::string_view, std::pair<std::string, std::string>> different;
  for (const auto& [name, line] : their) {
    different[name] = {std::string(line), fmt::format("no {}", name)};
  }
  for (const auto& [name, line] : our) {
    auto [it, added] = different.try_emplace(name, fmt::format("no {}", name), line);
    if (added) continue;
    it->second.second = line;
    if (it->second.first == line) different.erase(it);
  }
  std::string text;
  for (const auto& [name, values] : different) {
    if (!text.empty()) text += "; ";
    text += fmt::format("{} has {}, {} {}", theirs.name, values.first, self, values.second);
  }
  if (text.empty()) text = fmt::format("{} has its settings in another order", theirs.name);
  return text;
}

std::string_view orNone(std::string_view value) { return value.empty() ? "none" : value; }

}  // namespace

std::vector<std::byte> encodeHello(const Hello& hello) {
  ByteWriter writer;
  writer.number(kMagic);
  writer.number(kProtocolVersion);
  writer.number(hello.side);
  writer.text(hello.service);
  writer.text(hello.jobId);
  writer.text(hello.name);
  writer.number(hello.epoch);
  writer.number(hello.peer);
  writer.number(hello.stripe);
  writer.text(hello.identity.colla);
  writer.text(hello.identity.torch);
  writer.text(hello.identity.cpu);
  writer.text(hello.identity.settings);
  return writer.take();
}

Result<Hello> parseHello(std::span<const std::byte> bytes) {
  if (bytes.size() > kMaxHello) return refusal("its greeting is too long");
  ByteReader reader(bytes);
  if (reader.number<std::uint32_t>() != kMagic)
    return refusal("it does not speak Colla's protocol");
  if (const auto version = reader.number<std::uint16_t>(); version != kProtocolVersion) {
    return refusal(fmt::format("it speaks version {} of the protocol, this process version {}",
                               version, kProtocolVersion));
  }
  Hello hello;
  hello.side = reader.number<Side>();
  hello.service = reader.text();
  hello.jobId = reader.text();
  hello.name = printable(reader.text(), 256);
  hello.epoch = reader.number<std::uint32_t>();
  hello.peer = reader.number<std::int32_t>();
  hello.stripe = reader.number<std::uint32_t>();
  hello.identity.colla = reader.text();
  hello.identity.torch = reader.text();
  hello.identity.cpu = reader.text();
  hello.identity.settings = reader.text();
  if (!reader.done()) return refusal("its greeting is malformed");
  if (hello.side != Side::kConnector && hello.side != Side::kAcceptor) {
    return refusal("its greeting is malformed");
  }
  if (hello.name.empty()) hello.name = "the other side";
  return hello;
}

Status compareHellos(const Hello& theirs, const Hello& ours, std::string_view self) {
  const auto differ = [&](std::string_view what, std::string_view their, std::string_view our) {
    return refusal(
        fmt::format("{} {} {}, {} {}", theirs.name, what, orNone(their), self, orNone(our)),
        theirs.peer);
  };
  if (theirs.side == ours.side) {
    return refusal(fmt::format("{} echoes what {} says", theirs.name, self), theirs.peer);
  }
  if (theirs.service != ours.service) return differ("speaks", theirs.service, ours.service);
  if (theirs.jobId != ours.jobId) return differ("belongs to job", theirs.jobId, ours.jobId);
  if (theirs.identity.colla != ours.identity.colla) {
    return differ("runs colla", theirs.identity.colla, ours.identity.colla);
  }
  if (theirs.identity.torch != ours.identity.torch) {
    return differ("runs torch", theirs.identity.torch, ours.identity.torch);
  }
  if (theirs.identity.cpu != ours.identity.cpu) {
    return differ("has CPU features", theirs.identity.cpu, ours.identity.cpu);
  }
  if (theirs.identity.settings != ours.identity.settings) {
    return refusal(differingSettings(theirs, ours, self), theirs.peer);
  }
  if (theirs.epoch != ours.epoch) {
    return refusal(fmt::format("{} is in membership epoch {}, {} in {}", theirs.name, theirs.epoch,
                               self, ours.epoch),
                   theirs.peer);
  }
  return {};
}

std::string printable(std::string_view text, std::size_t limit) {
  std::string clean(text.substr(0, limit));
  std::ranges::replace_if(
      clean, [](char c) { return (static_cast<unsigned char>(c) < 0x20) || c == 0x7f; }, ' ');
  return clean;
}

}  // namespace colla::transport::net
