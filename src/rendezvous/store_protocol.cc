#include "rendezvous/store_protocol.h"

#include <fmt/format.h>

#include "base/bytes.h"

namespace colla::rendezvous {
namespace {

Status malformed(std::string_view what) {
  return {StatusCode::kInvalidArgument, fmt::format("malformed {}", what)};
}

void writeOptional(ByteWriter& writer, const std::optional<std::string>& value) {
  writer.number(static_cast<std::uint8_t>(value.has_value() ? 1 : 0));
  if (value) writer.text(*value);
}

std::optional<std::string> readOptional(ByteReader& reader) {
  if (reader.number<std::uint8_t>() == 0) return std::nullopt;
  return reader.text();
}

bool takesPattern(Operation operation) {
  return operation == Operation::kList || operation == Operation::kWaitCount ||
         operation == Operation::kWatch;
}

}  // namespace

Status checkRequest(const Request& request) {
  if (request.operation == Operation::kCancel) return {};
  if (request.key.empty()) return {StatusCode::kInvalidArgument, "a key must not be empty"};
  if (request.key.size() > kMaxKey) {
    return {
        StatusCode::kInvalidArgument,
        fmt::format("a key of {} bytes is too long; the limit is {}", request.key.size(), kMaxKey)};
  }
  const bool pattern = request.key.back() == '/';
  if (pattern && !takesPattern(request.operation)) {
    return {StatusCode::kInvalidArgument,
            fmt::format("\"{}\" ends with '/', which means all keys below", request.key)};
  }
  if (!pattern && takesPattern(request.operation) && request.operation != Operation::kWatch) {
    return {StatusCode::kInvalidArgument, fmt::format("\"{}\" must end with '/'", request.key)};
  }
  const std::size_t bytes = request.value.size() + request.expected.value_or("").size();
  if (bytes > kMaxValue) {
    return {StatusCode::kInvalidArgument,
            fmt::format("a value of {} bytes is too long; the limit is {}", bytes, kMaxValue)};
  }
  return {};
}

std::vector<std::byte> encodeRequest(const Request& request) {
  ByteWriter writer;
  writer.number(request.id);
  writer.number(request.operation);
  writer.text(request.key);
  writer.text(request.value);
  writeOptional(writer, request.expected);
  writer.number(request.number);
  return writer.take();
}

Result<Request> parseRequest(std::span<const std::byte> frame) {
  if (frame.size() > kMaxFrame) return malformed("request");
  ByteReader reader(frame);
  Request request;
  request.id = reader.number<std::uint32_t>();
  request.operation = reader.number<Operation>();
  request.key = reader.text();
  request.value = reader.text();
  request.expected = readOptional(reader);
  request.number = reader.number<std::int64_t>();
  if (!reader.done() || request.operation < Operation::kSet ||
      request.operation > Operation::kCancel) {
    return malformed("request");
  }
  COLLA_TRY(checkRequest(request));
  return request;
}

Body encodeEntries(std::span<const Entry> entries) {
  ByteWriter writer;
  writer.number(static_cast<std::uint32_t>(entries.size()));
  for (const Entry& entry : entries) {
    writer.text(entry.key);
    writeOptional(writer, entry.value);
  }
  return std::make_shared<const std::vector<std::byte>>(writer.take());
}

std::vector<std::byte> encodeResponseHead(std::uint32_t id, Answer answer) {
  ByteWriter writer;
  writer.number(id);
  writer.number(answer);
  return writer.take();
}

Result<Response> parseResponse(std::span<const std::byte> frame) {
  ByteReader reader(frame);
  Response response;
  response.id = reader.number<std::uint32_t>();
  response.answer = reader.number<Answer>();
  const auto count = reader.number<std::uint32_t>();
  // The count is not trusted for an allocation: an entry takes 5 bytes at least.
  for (std::uint32_t i = 0; i < count && reader.ok(); ++i) {
    Entry entry;
    entry.key = reader.text();
    entry.value = readOptional(reader);
    response.entries.push_back(std::move(entry));
  }
  if (!reader.done() || response.answer < Answer::kFound || response.answer > Answer::kError) {
    return malformed("response");
  }
  return response;
}

}  // namespace colla::rendezvous
