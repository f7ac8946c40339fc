// What a client asks of the store, from bytes of anybody.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "rendezvous/membership.h"
#include "rendezvous/store_protocol.h"
#include "rendezvous/store_state.h"

// The input is a sequence of frames, each preceded by its length in one byte; the state must take
// all that the parser lets through.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace colla::rendezvous;
  StoreState state(
      [](auto, auto id, auto answer, const Body& body) {
        auto frame = encodeResponseHead(id, answer);
        frame.insert(frame.end(), body->begin(), body->end());
        const auto response = parseResponse(frame);
        if (!response.ok() || response->id != id) std::abort();
      },
      1 << 16);
  auto rest = std::as_bytes(std::span(data, size));
  (void)parseResponse(rest).ok();
  (void)parseMember({reinterpret_cast<const char*>(rest.data()), rest.size()}).ok();
  for (std::uint64_t client = 0; !rest.empty(); ++client) {
    const auto length = std::to_integer<std::size_t>(rest[0]);
    rest = rest.subspan(1);
    if (length > rest.size()) break;
    const auto request = parseRequest(rest.first(length));
    if (request.ok()) {
      if (!parseRequest(encodeRequest(*request)).ok()) std::abort();
      state.apply(client % 4, *request);
    }
    rest = rest.subspan(length);
  }
  for (std::uint64_t client = 0; client < 4; ++client) state.forget(client);
  if (state.waiting() != 0) std::abort();
  return 0;
}
