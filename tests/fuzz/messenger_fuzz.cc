// Frames and what the messenger makes of them, from bytes of a peer that says anything.
//
// The first byte says how the rest is to be read: as it is, or cut into frames whose magic, epoch
// and small numbers are put right, so that what follows is reached. The second one limits reads.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "base/log.h"
#include "transport/messenger.h"
#include "transport/script_backend.h"

namespace colla::transport {
namespace {

constexpr std::uint32_t kEpoch = 3;
constexpr std::size_t kLarge = kEagerLimit + 1000;

// One frame of `input`, most of it made plausible, its body cut or zero-filled.
void sayPlausible(Script& script, std::span<const std::byte>& input) {
  std::array<std::uint8_t, 8> choice{};
  const std::size_t taken = std::min(choice.size(), input.size());
  std::memcpy(choice.data(), input.data(), taken);
  input = input.subspan(taken);

  constexpr std::uint64_t kTotals[] = {0, 1, 8, 100, kEagerLimit, kLarge, kLarge, 1ULL << 40};
  Frame frame;
  frame.kind = static_cast<FrameKind>(choice[0] % 8);
  frame.epoch = kEpoch;
  frame.envelope.group = choice[1] % 3;
  frame.envelope.sequence = choice[2] % 4;
  frame.envelope.step = choice[3] % 3;
  frame.envelope.call.operation = choice[4] == 255 ? 1 : 0;
  frame.total = kTotals[choice[5] % std::size(kTotals)];
  switch (frame.kind) {
    case FrameKind::kData:
    case FrameKind::kAbort:
      frame.length = static_cast<std::uint32_t>(std::min(frame.total, kLarge + std::uint64_t{1}));
      break;
    case FrameKind::kPart:
      frame.offset = frame.total * choice[6] / 256;
      frame.length = static_cast<std::uint32_t>(
          std::min<std::uint64_t>(frame.total - frame.offset, (choice[7] + 1U) * 512));
      break;
    default:
      break;
  }
  std::vector<std::byte> body(frame.length);
  const std::size_t own = std::min(body.size(), input.size());
  std::copy_n(input.begin(), own, body.begin());
  input = input.subspan(own);
  script.say(frame, body);
}

void run(std::span<const std::byte> input) {
  if (input.size() < 2) return;
  const bool plausible = input[0] != std::byte{0};
  auto script = std::make_shared<Script>();
  script->readLimit = static_cast<std::size_t>(input[1]) + 1;
  if (input[1] == std::byte{255}) script->readLimit = 1 << 20;
  input = input.subspan(2);

  Options options;
  options.self = 1;
  options.peers = {{"rank 0", ""}, {"rank 1", ""}};
  options.epoch = kEpoch;
  // They outlive the messenger, which ends those that are still under way. Each buffer has its
  // exact size, so that a byte outside of one is found.
  std::deque<Request> requests;
  std::deque<std::vector<std::byte>> buffers;
  Messenger messenger(options, std::make_unique<ScriptBackend>(script));

  // Requests that frames can hit: small and large, both ways.
  std::vector<Request*> all;
  for (const std::size_t size : {std::size_t{0}, std::size_t{8}, kLarge}) {
    for (std::uint32_t step = 0; step < 2; ++step) {
      const Envelope envelope{1, static_cast<std::uint32_t>(size % 4), step, {}};
      messenger.recv(0, envelope, buffers.emplace_back(size), requests.emplace_back());
      messenger.send(0, envelope, buffers.emplace_back(size), requests.emplace_back());
    }
  }
  for (Request& r : requests) all.push_back(&r);

  if (plausible) {
    while (!input.empty()) sayPlausible(*script, input);
  } else {
    script->says.assign(input.begin(), input.end());
  }
  // Withdraws in the middle of whatever is going on, then goes on, and posts after the fact.
  (void)messenger.wait(all, Deadline::at(TimePoint::min())).ok();
  for (int round = 0; round < 64; ++round) (void)messenger.aborted(2).ok();
  for (std::uint32_t sequence = 0; sequence < 4; ++sequence) {
    auto& buffer = buffers.emplace_back(sequence == 3 ? kLarge : 8);
    messenger.recv(0, {0, sequence, 0, {}}, buffer, requests.emplace_back());
    messenger.send(0, {0, sequence, 1, {}}, buffer, requests.emplace_back());
  }
  for (int round = 0; round < 16; ++round) (void)messenger.aborted(2).ok();
}

}  // namespace
}  // namespace colla::transport

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  colla::log::setLevel(colla::log::Level::kOff);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  colla::transport::run(std::as_bytes(std::span(data, size)));
  return 0;
}
