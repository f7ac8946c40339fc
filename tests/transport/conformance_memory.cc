// Conformance: memory that peers share, for the backends that have some.
#include <gmock/gmock.h>

#include <atomic>

#include "transport/conformance.h"
#include "transport/shared_memory.h"

namespace colla::transport {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

std::atomic_ref<std::uint32_t> wordAt(std::span<std::byte> data) {
  return std::atomic_ref<std::uint32_t>(*reinterpret_cast<std::uint32_t*>(data.data()));
}

// The bytes of `owner`, as `other` sees them.
Mapping seenBy(Transport& other, Transport& owner, std::span<std::byte> data) {
  const Place place = owner.sharedMemory()->find(data);
  EXPECT_NE(place.region, Place::kNowhere);
  const auto mapped =
      other.sharedMemory()->map(owner.self(), place, data.size(), Deadline::after(30s));
  EXPECT_TRUE(mapped.ok()) << mapped.status();
  return mapped.ok() ? *mapped : Mapping();
}

}  // namespace

TEST_P(SharedMemoryConformance, MemoryIsSeenByPeers) {
  start(2);
  greet(0, 1);
  auto region = peer(0).sharedMemory()->allocate(3 << 20);
  ASSERT_TRUE(region.ok()) << region.status();
  const std::span<std::byte> own = region->bytes;
  ASSERT_EQ(own.size(), std::size_t{3} << 20);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(own.data()) % 4096, 0U);
  EXPECT_TRUE(std::ranges::all_of(own, [](std::byte b) { return b == std::byte{0}; }));

  const Bytes expected = pattern(5000, 3);
  std::ranges::copy(expected, own.begin() + 1'000'000);
  const Mapping mapping = seenBy(peer(1), peer(0), own.subspan(1'000'000, 5000));
  const auto part = mapping.bytes;
  EXPECT_TRUE(std::ranges::equal(part, expected));
  part[17] = std::byte{99};
  EXPECT_EQ(own[1'000'017], std::byte{99});

  // A mapping outlives its region, and its owner.
  region->keep.reset();
  leave(0);
  EXPECT_EQ(part[17], std::byte{99});
}

TEST_P(SharedMemoryConformance, MemoryOutlivesItsTransport) {
  start(2);
  greet(0, 1);
  const auto region = peer(0).sharedMemory()->allocate(5000);
  ASSERT_TRUE(region.ok()) << region.status();
  leave(0);
  std::ranges::copy(pattern(5000, 3), region->bytes.begin());
  EXPECT_TRUE(std::ranges::equal(region->bytes, pattern(5000, 3)));
}

TEST_P(SharedMemoryConformance, MemoryThatIsGivenUpIsFreedByPeers) {
  start(2);
  greet(0, 1);
  auto region = peer(0).sharedMemory()->allocate(5000);
  ASSERT_TRUE(region.ok()) << region.status();
  const std::weak_ptr<const void> memory = seenBy(peer(1), peer(0), region->bytes).keep;
  region->keep.reset();
  // The peer lets go of it as soon as it looks.
  const auto end = std::chrono::steady_clock::now() + 30s;
  while (!memory.expired() && std::chrono::steady_clock::now() < end) {
    (void)peer(1).sharedMemory()->map(0, Place{.region = 77}, 10, Deadline::after(1ms));
  }
  EXPECT_TRUE(memory.expired());
}

TEST_P(SharedMemoryConformance, MemoryThatIsNotThereIsRefused) {
  start(2);
  greet(0, 1);
  const auto nowhere =
      peer(1).sharedMemory()->map(0, Place{.region = 77}, 10, Deadline::after(100ms));
  EXPECT_FALSE(nowhere.ok());  // It might still be on its way: refused at once, or given up on.
  const auto huge = peer(0).sharedMemory()->allocate(std::size_t{1} << 60);
  EXPECT_EQ(huge.status().code(), StatusCode::kNoMemory) << huge.status();
}

// Each waits for the other's word in turn.
TEST_P(SharedMemoryConformance, MemoryWaitSeesWhatIsNotified) {
  constexpr std::uint32_t kRounds = 2000;
  start(2);
  greet(0, 1);
  const auto region = peer(0).sharedMemory()->allocate(4096);
  ASSERT_TRUE(region.ok()) << region.status();
  const auto mapped = seenBy(peer(1), peer(0), region->bytes);
  run([&](int self) {
    const auto word = wordAt(self == 0 ? region->bytes : mapped.bytes);
    const int other = 1 - self;
    for (std::uint32_t round = self; round < kRounds; round += 2) {
      const Status status = peer(self).sharedMemory()->wait(
          {&other, 1}, [&] { return word.load(std::memory_order_acquire) == round; }, patience());
      ASSERT_EQ(toString(status), "ok") << round;
      word.store(round + 1, std::memory_order_release);
      peer(self).sharedMemory()->notify({&other, 1});
    }
  });
  EXPECT_EQ(wordAt(region->bytes).load(), kRounds);
}

TEST_P(SharedMemoryConformance, MemoryWaitEndsAtTheDeadline) {
  start(2);
  const int other = 1;
  const auto before = std::chrono::steady_clock::now();
  const Status status = peer(0).sharedMemory()->wait(
      {&other, 1}, [] { return false; }, Deadline::after(50ms));
  EXPECT_EQ(status.code(), StatusCode::kTimeout) << status;
  EXPECT_GE(std::chrono::steady_clock::now() - before, 50ms);
}

TEST_P(SharedMemoryConformance, MemoryWaitNamesTheLostPeer) {
  start(3);
  greet(2, 0);
  const int peers[] = {1, 2};
  std::jthread victim([&] { leave(2); });
  const Status status = peer(0).sharedMemory()->wait(
      peers, [] { return false; }, patience());
  EXPECT_EQ(status.code(), StatusCode::kPeerLost) << status;
  EXPECT_EQ(status.peer(), 2);
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 2 on host c"));
  // What holds counts more than who is gone.
  EXPECT_TRUE(peer(0)
                  .sharedMemory()
                  ->wait(
                      peers, [] { return true; }, patience())
                  .ok());
}

}  // namespace colla::transport
