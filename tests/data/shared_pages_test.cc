// Contract: processes of a host keep the same bytes once; nothing that anybody holds changes.
#include "data/shared_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <fstream>
#include <string>

namespace colla::data {
namespace {

constexpr std::int64_t kCount = 10 << 20;      // 40 MiB of int32.
constexpr std::int64_t kPieceCount = 4 << 20;  // What is compared at once: 16 MiB.

Array numbers(std::int32_t first) {
  Array array = *Array::allocate(DataType::kInt32, {kCount});
  for (std::int32_t i = 0; std::int32_t & number : array.as<std::int32_t>()) number = first + i++;
  return array;
}

std::span<std::byte> onlyPages(const Array& array) {
  const Pages pages = pagesOf(std::array{array});
  EXPECT_EQ(pages.size(), 1);
  return pages.at(0);
}

bool areNumbers(const Array& array, std::int32_t first) {
  for (std::int32_t i = 0; const std::int32_t number : array.as<std::int32_t>()) {
    if (number != first + i++) return false;
  }
  return true;
}

// A line of this process's smaps_rollup, in MiB.
std::size_t mebibytes(const std::string& key) {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string word; file >> word;) {
    std::size_t kilobytes = 0;
    if (word == key + ":" && file >> kilobytes) return kilobytes >> 10;
  }
  return 0;
}

TEST(SharedPagesTest, LargeArraysHavePagesOfTheirOwn) {
  const Array small = *Array::allocate(DataType::kInt32, {1000});
  const Array large = numbers(1);
  const Array view = Array::view(large.owner(), large.data() + 4096, DataType::kInt32, {1000});
  EXPECT_TRUE(pagesOf(std::array{small}).empty());
  const Pages pages = pagesOf(std::array{large, small, view});
  ASSERT_EQ(pages.size(), 1);  // The view's are the same.
  EXPECT_EQ(pages[0].data(), large.data());
  EXPECT_GE(pages[0].size(), large.bytes().size());
}

TEST(SharedPagesTest, EqualBytesAreKeptOnce) {
  const Array mine = numbers(7);
  const Array other = numbers(7);
  const std::size_t before = mebibytes("Rss");
  const auto file = publishPages({onlyPages(mine)});
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_LT(mebibytes("Anonymous"), before - 30);  // They are the file's now.
  const auto shared = adoptPages(*file, 0, onlyPages(other));
  ASSERT_TRUE(shared.ok()) << shared.status();
  EXPECT_EQ(*shared, onlyPages(other).size());
  EXPECT_TRUE(areNumbers(mine, 7));
  EXPECT_TRUE(areNumbers(other, 7));
  EXPECT_LT(mebibytes("Pss"), before - 30);

  // Whoever writes all the same has written to memory of its own.
  other.as<std::int32_t>()[5] = -1;
  EXPECT_TRUE(areNumbers(mine, 7));
  EXPECT_EQ(pwrite(file->get(), "x", 1, 0), -1);
}

TEST(SharedPagesTest, WhatDiffersStays) {
  const Array mine = numbers(7);
  const Array other = numbers(7);
  other.as<std::int32_t>()[kPieceCount] = -3;
  const auto file = publishPages({onlyPages(mine)});
  ASSERT_TRUE(file.ok()) << file.status();
  const auto shared = adoptPages(*file, 0, onlyPages(other));
  ASSERT_TRUE(shared.ok()) << shared.status();
  EXPECT_EQ(*shared, onlyPages(other).size() - kPieceCount * sizeof(std::int32_t));
  EXPECT_EQ(other.as<std::int32_t>()[kPieceCount], -3);
  EXPECT_EQ(other.as<std::int32_t>()[kPieceCount + 1], 7 + kPieceCount + 1);
  EXPECT_TRUE(areNumbers(mine, 7));

  EXPECT_EQ(adoptPages(*file, 4096, onlyPages(other)).status().code(), StatusCode::kRefused);
}

// A process adopts what it was told of, and keeps it when the one that made it is gone.
TEST(SharedPagesTest, PagesOutliveTheirProcess) {
  int told[2];
  ASSERT_EQ(pipe(told), 0);
  const pid_t first = fork();
  if (first == 0) {
    const Array array = numbers(3);
    const auto file = publishPages({onlyPages(array)});
    const int fd = file.ok() ? file->get() : -1;
    if (write(told[1], &fd, sizeof(fd)) != sizeof(fd)) _exit(1);
    while (true) pause();
  }
  int fd = -1;
  ASSERT_EQ(read(told[0], &fd, sizeof(fd)), ssize_t{sizeof(fd)});
  const Array array = numbers(3);
  const auto file = openPages("/proc/" + std::to_string(first) + "/fd/" + std::to_string(fd));
  ASSERT_TRUE(file.ok()) << file.status();
  const auto shared = adoptPages(*file, 0, onlyPages(array));
  kill(first, SIGKILL);
  waitpid(first, nullptr, 0);
  close(told[0]);
  close(told[1]);
  ASSERT_TRUE(shared.ok()) << shared.status();
  EXPECT_EQ(*shared, onlyPages(array).size());
  EXPECT_TRUE(areNumbers(array, 3));
}

// A limit for files would end the process, were it not heeded.
TEST(SharedPagesTest, ALimitForFilesIsHeeded) {
  const Array array = numbers(5);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 1 << 20;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  const auto file = publishPages({onlyPages(array)});
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(file.status().code(), StatusCode::kNoMemory);
  EXPECT_TRUE(areNumbers(array, 5));
}

TEST(SharedPagesTest, AFileThatMayChangeIsRefused) {
  const UniqueFd file(memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(openPages("/proc/self/fd/" + std::to_string(file.get())).status().code(),
            StatusCode::kRefused);
  EXPECT_EQ(openPages("/proc/self/fd/9999").status().code(), StatusCode::kIo);
}

}  // namespace
}  // namespace colla::data
