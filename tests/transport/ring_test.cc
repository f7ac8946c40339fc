#include "transport/ring.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "transport/ring_stream.h"

namespace colla::transport {
namespace {

constexpr std::size_t kCapacity = 64;

struct Memory {
  explicit Memory(std::size_t capacity = kCapacity)
      : pages(allocatePages(Ring::bytesFor(capacity))),
        ring(std::span(pages.get(), Ring::bytesFor(capacity))) {}
  RingHeader& header() { return *reinterpret_cast<RingHeader*>(pages.get()); }
  std::shared_ptr<std::byte> pages;
  Ring ring;
};

std::vector<std::byte> counting(std::size_t size, std::size_t from = 0) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>((from + i) * 13);
  return bytes;
}

TEST(RingTest, TakesWhatFitsAndWrapsAround) {
  Memory memory;
  RingWriter writer(memory.ring);
  RingReader reader(memory.ring);
  std::vector<std::byte> out(100);
  EXPECT_FALSE(memory.ring.readable());
  EXPECT_TRUE(memory.ring.writable());
  EXPECT_EQ(reader.read(out), 0U);

  EXPECT_EQ(writer.write(counting(100)), kCapacity);
  EXPECT_EQ(writer.write(counting(1)), 0U);
  EXPECT_FALSE(memory.ring.writable());
  EXPECT_EQ(reader.read(std::span(out).first(40)), 40U);
  EXPECT_EQ(writer.write(counting(30, 64)), 30U);  // Over the end.
  EXPECT_EQ(reader.read(std::span(out).subspan(40)), 54U);
  out.resize(94);
  EXPECT_EQ(out, counting(94));
  EXPECT_FALSE(memory.ring.readable());
}

TEST(RingTest, BytesPassBetweenThreadsInOrder) {
  constexpr std::size_t kTotal = 1 << 20;
  Memory memory(1024);
  const auto sent = counting(kTotal);
  std::jthread writing([&] {
    RingWriter writer(memory.ring);
    for (std::size_t at = 0; at < kTotal;) {
      const auto count = writer.write(
          std::span(sent).subspan(at, std::min<std::size_t>(kTotal - at, at % 97 + 1)));
      at += *count;
      if (*count == 0) std::this_thread::yield();
    }
  });
  RingReader reader(memory.ring);
  std::vector<std::byte> received(kTotal);
  for (std::size_t at = 0; at < kTotal;) {
    const auto count = reader.read(std::span(received).subspan(at));
    at += *count;
    if (*count == 0) std::this_thread::yield();
  }
  EXPECT_TRUE(received == sent);
}

// A peer that has gone wrong writes anything to the positions.
TEST(RingTest, CorruptPositionsAreRefused) {
  for (const std::uint64_t bad : {std::uint64_t{kCapacity + 1}, ~std::uint64_t{0}}) {
    Memory memory;
    RingReader reader(memory.ring);
    std::vector<std::byte> out(1000);
    memory.header().written = bad;
    EXPECT_EQ(reader.read(out), std::nullopt);

    Memory other;
    RingWriter writer(other.ring);
    EXPECT_EQ(writer.write(counting(10)), 10U);
    other.header().read = 11;  // More than was written.
    EXPECT_EQ(writer.write(counting(10)), std::nullopt);
  }
  Memory memory;
  RingReader reader(memory.ring);
  RingWriter writer(memory.ring);
  EXPECT_EQ(writer.write(counting(10)), 10U);
  memory.header().written = 12;  // Plausible: what is read is in bounds all the same.
  std::vector<std::byte> out(1000);
  EXPECT_EQ(reader.read(out), 12U);
}

class RingStreamTest : public ::testing::Test {
 protected:
  Memory up_, down_;
  Doorbell bell_{};
  std::atomic<bool> gone_{false};
  RingStream here_{RingStream::Place{down_.ring, up_.ring, nullptr, &gone_, nullptr}};
  RingStream there_{RingStream::Place{up_.ring, down_.ring, &bell_, nullptr, nullptr}};
  std::vector<std::byte> out_ = std::vector<std::byte>(100);
};

TEST_F(RingStreamTest, WhatWasSentBeforeTheEndIsRead) {
  EXPECT_EQ(*there_.write(counting(10)), 10U);
  gone_ = true;
  EXPECT_TRUE(here_.ready(true, false));
  EXPECT_EQ(*here_.read(out_), 10U);
  EXPECT_EQ(here_.read(out_).status().code(), StatusCode::kPeerLost);
  EXPECT_EQ(here_.write(counting(1)).status().code(), StatusCode::kPeerLost);
}

TEST_F(RingStreamTest, CorruptMemoryIsALostPeer) {
  down_.header().written = 1 << 20;
  up_.header().read = 1 << 20;
  EXPECT_EQ(here_.read(out_).status().code(), StatusCode::kPeerLost);
  EXPECT_EQ(here_.write(counting(1)).status().code(), StatusCode::kPeerLost);
}

TEST_F(RingStreamTest, ReadyTellsWhatCanMove) {
  EXPECT_FALSE(here_.ready(true, false));
  EXPECT_TRUE(here_.ready(true, true));
  EXPECT_EQ(*here_.write(counting(100)), kCapacity);
  EXPECT_FALSE(here_.ready(true, true));
  EXPECT_TRUE(there_.ready(true, false));
}

// The sleeper is woken by a write, and by a read that makes room.
TEST_F(RingStreamTest, RingsAfterProgress) {
  for (const bool reading : {false, true}) {
    if (reading) {
      while (*here_.read(out_) > 0) {
      }
      ASSERT_EQ(*here_.write(counting(100)), kCapacity);
    }
    std::jthread other([&] {
      while (bell_.sleepers.load() == 0) std::this_thread::yield();
      EXPECT_GT(reading ? *there_.read(out_) : *there_.write(counting(1)), 0U);
    });
    EXPECT_TRUE(bell_.wait([&] { return here_.ready(true, reading); }, std::chrono::nanoseconds(0),
                           Deadline::after(std::chrono::seconds(30))));
  }
}

TEST(LoopStreamTest, GivesBackWhatItTakes) {
  const auto stream = makeLoopStream(kCapacity);
  EXPECT_EQ(*stream->write(counting(10)), 10U);
  std::vector<std::byte> out(10);
  EXPECT_EQ(*stream->read(out), 10U);
  EXPECT_EQ(out, counting(10));
  EXPECT_EQ(*stream->read(out), 0U);
}

}  // namespace
}  // namespace colla::transport
