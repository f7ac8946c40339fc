#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "transport/conformance.h"
#include "transport/listeners.h"
#include "transport/shm/segment.h"
#include "transport/shm/transport.h"

namespace {

off_t interruptedAbove = 0;  // 0: nothing is.
int interruptions = 0;

}  // namespace

// The C library's, as Linux before 6.10 does it where a signal comes again and again: what takes
// longer than from one to the next is never done, and nothing of it stays; the rest meets one now
// and then.
extern "C" int posix_fallocate(int fd, off_t at, off_t bytes) {
  static int calls = 0;
  if (interruptedAbove > 0 && (bytes > interruptedAbove || ++calls % 2 == 0)) {
    return ++interruptions < 1000 ? EINTR : EIO;  // Not for ever.
  }
  return fallocate(fd, 0, at, bytes) == 0 ? 0 : errno;
}

namespace colla::transport {
namespace {

Transports makeShm(int size) {
  std::vector<Options> options;
  for (int i = 0; i < size; ++i) options.push_back(conformanceOptions(i, size));
  return connectAll(options, shm::listen, shm::connect);
}

INSTANTIATE_TEST_SUITE_P(Shm, TransportConformance,
                         ::testing::Values(ConformanceBackend{"shm", makeShm}), backendName);
INSTANTIATE_TEST_SUITE_P(Shm, SharedMemoryConformance,
                         ::testing::Values(ConformanceBackend{"shm", makeShm}), backendName);

TEST(SegmentTest, MoreThanThereIsIsAnErrorAndNeverASignal) {
  const auto segment = shm::Segment::create(std::size_t{1} << 50);
  ASSERT_FALSE(segment.ok());
  EXPECT_EQ(segment.status().code(), StatusCode::kNoMemory);
  EXPECT_THAT(std::string(segment.status().message()),
              ::testing::HasSubstr("does not fit into the"));
}

// `ulimit -f` counts for shared memory as well.
TEST(SegmentTest, MoreThanAFileMayHaveIsAnErrorAndNeverASignal) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 1 << 20;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto large = shm::Segment::create(2 << 20);
  const auto fits = shm::Segment::create(1 << 20);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(large.status().code(), StatusCode::kNoMemory);
  EXPECT_THAT(std::string(large.status().message()), ::testing::HasSubstr("ulimit -f"));
  EXPECT_TRUE(fits.ok()) << fits.status();
}

// Where a profiler interrupts it all the time.
TEST(SegmentTest, SignalsDoNotKeepItFromBeingReserved) {
  interruptedAbove = 16 << 20;
  interruptions = 0;
  const auto segment = shm::Segment::create(100'000'000);
  interruptedAbove = 0;
  ASSERT_TRUE(segment.ok()) << segment.status();
  EXPECT_GT(interruptions, 0);
  struct stat facts {};
  ASSERT_EQ(fstat(segment->fd(), &facts), 0);
  EXPECT_EQ(static_cast<std::size_t>(facts.st_blocks) * 512, segment->bytes().size());
}

// A peer could otherwise shrink it under us: the next access would be a SIGBUS.
TEST(SegmentTest, CannotBeShrunk) {
  auto segment = shm::Segment::create(10'000);
  ASSERT_TRUE(segment.ok()) << segment.status();
  EXPECT_EQ(segment->bytes().size(), 12288U);
  EXPECT_NE(ftruncate(segment->fd(), 0), 0);
  EXPECT_NE(ftruncate(segment->fd(), 1 << 20), 0);
}

TEST(SegmentTest, AttachRefusesWhatIsNotSealedOrHasAnotherSize) {
  UniqueFd loose(memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(loose.get(), 4096), 0);
  EXPECT_EQ(shm::Segment::attach(std::move(loose), 4096).status().code(), StatusCode::kRefused);

  auto segment = shm::Segment::create(4096);
  ASSERT_TRUE(segment.ok());
  EXPECT_FALSE(shm::Segment::attach(UniqueFd(dup(segment->fd())), 8192).ok());
  auto attached = shm::Segment::attach(UniqueFd(dup(segment->fd())), 4096);
  ASSERT_TRUE(attached.ok()) << attached.status();
  segment->bytes()[7] = std::byte{42};
  EXPECT_EQ(attached->bytes()[7], std::byte{42});

  UniqueFd device(open("/dev/null", O_RDWR | O_CLOEXEC));  // Knows nothing of seals.
  EXPECT_EQ(shm::Segment::attach(std::move(device), 0).status().code(), StatusCode::kRefused);
}

// What a segment is where the system keeps such files from being run (vm.memfd_noexec).
TEST(SegmentTest, AttachTakesWhatTheSystemHasSealedFurther) {
  constexpr unsigned kNoExecSeal = 8;
  UniqueFd fd(memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING | kNoExecSeal));
  if (!fd.valid()) GTEST_SKIP() << "this kernel knows no such seal";
  ASSERT_EQ(ftruncate(fd.get(), 4096), 0);
  ASSERT_EQ(fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  const auto attached = shm::Segment::attach(std::move(fd), 4096);
  EXPECT_TRUE(attached.ok()) << attached.status();
}

}  // namespace
}  // namespace colla::transport
