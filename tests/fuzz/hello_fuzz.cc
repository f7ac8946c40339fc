// The greeting that opens every connection, from bytes of anybody.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "transport/net/hello.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace colla::transport::net;
  const auto hello = parseHello(std::as_bytes(std::span(data, size)));
  if (!hello.ok()) return 0;
  // What was understood must survive the way out and back, and comparing must be safe.
  const auto bytes = encodeHello(*hello);
  if (bytes.size() > kMaxHello) return 0;
  const auto again = parseHello(bytes);
  if (!again.ok() || again->name != hello->name || again->peer != hello->peer) std::abort();
  (void)compareHellos(*hello, Hello{}).ok();
  Hello connector = *hello;
  connector.side = other(hello->side);
  if (!compareHellos(*hello, connector).ok()) std::abort();
  return 0;
}
