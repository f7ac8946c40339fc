// Downloads from a real server that breaks off, lies and stalls (server.py).
#include "fetch/download.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>

#include "fetch/table.h"
#include "support/scratch.h"

namespace colla::fetch {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// 100,000 bytes without a period, and their MD5.
constexpr char kMd5[] = "c751ab430df82faa05591bf22ba08359";
std::string content() {
  std::string bytes;
  std::uint32_t state = 1;
  for (int i = 0; i < 100'000; ++i) {
    state = state * 1664525 + 1013904223;
    bytes += static_cast<char>(state >> 24);
  }
  return bytes;
}

class DownloadTest : public ::testing::Test {
 protected:
  DownloadTest() {
    scratch_.write("content", content());
    std::array<int, 2> input{};
    std::array<int, 2> output{};
    EXPECT_EQ(pipe2(input.data(), O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(output.data(), O_CLOEXEC), 0);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(input[0], STDIN_FILENO);
      dup2(output[1], STDOUT_FILENO);
      execl(COLLA_PYTHON3, COLLA_PYTHON3, COLLA_SERVER, scratch_.at("content").c_str(), nullptr);
      _exit(127);
    }
    close(input[0]);
    close(output[1]);
    input_ = input[1];
    std::string port;
    for (char c = 0; read(output[0], &c, 1) == 1 && c != '\n';) port += c;
    close(output[0]);
    base_ = "http://127.0.0.1:" + port + "/";
  }
  ~DownloadTest() override {
    close(input_);  // The server's input ends, and so does it.
    waitpid(pid_, nullptr, 0);
  }

  Wanted wanted() const { return {.path = scratch_.at("file"), .bytes = 100'000, .md5 = kMd5}; }
  Status get(const std::vector<std::string>& paths, int attempts = 3) {
    std::vector<std::string> addresses;
    for (const std::string& path : paths) addresses.push_back(base_ + path);
    return download(wanted(), addresses,
                    {.stallLimit = std::chrono::seconds(1), .attempts = attempts});
  }
  bool arrived() const { return readText(scratch_.at("file")) == content(); }
  bool nothingNamed() const { return !std::filesystem::exists(scratch_.at("file")); }
  // What was asked of the server: "break bytes=33333-".
  std::string asked() {
    EXPECT_TRUE(
        download({.path = scratch_.at("log"), .bytes = 0, .md5 = {}}, {base_ + "log"}, {}).ok());
    return readText(scratch_.at("log"));
  }

  const Scratch scratch_;
  std::string base_;
  int input_ = -1;
  pid_t pid_ = -1;
};

TEST_F(DownloadTest, FetchesAndChecks) {
  const Status status = get({"good"});
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(arrived());
  EXPECT_FALSE(std::filesystem::exists(scratch_.at("file.part")));
}

TEST_F(DownloadTest, FollowsToWhereTheFileIs) {
  EXPECT_TRUE(get({"moved"}).ok());
  EXPECT_TRUE(arrived());
}

// A third of what is left comes each time: after three attempts the next mirror has the rest to
// send.
TEST_F(DownloadTest, GoesOnWhereADownloadBrokeOff) {
  const Status status = get({"break", "good"});
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(arrived());
  EXPECT_EQ(asked(), "break -\nbreak bytes=33333-\nbreak bytes=55555-\ngood bytes=70370-");
}

// The next call of the same command does so too.
TEST_F(DownloadTest, GoesOnLater) {
  const Status first = get({"cut"}, 1);
  EXPECT_THAT(std::string(first.message()), HasSubstr("it ended after 33333 of 100000 bytes"));
  EXPECT_TRUE(nothingNamed());
  EXPECT_TRUE(get({"good"}).ok());
  EXPECT_TRUE(arrived());
  EXPECT_THAT(asked(), HasSubstr("good bytes=33333-"));
}

TEST_F(DownloadTest, AServerWithoutRangesSendsAllOfItAgain) {
  EXPECT_FALSE(get({"break"}, 1).ok());
  EXPECT_TRUE(get({"plain"}).ok());
  EXPECT_TRUE(arrived());
}

TEST_F(DownloadTest, WrongBytesNeverGetTheName) {
  const Status status = get({"lie"});
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("its MD5 is"), HasSubstr("/lie")));
  EXPECT_TRUE(nothingNamed());
  EXPECT_FALSE(std::filesystem::exists(scratch_.at("file.part"))) << "nothing of it can be trusted";
  EXPECT_TRUE(get({"lie", "good"}).ok());
  EXPECT_TRUE(arrived());
}

// What a lying server left behind does not spoil what an honest one adds: the sum is checked.
TEST_F(DownloadTest, ALieThatWasCutIsFoundOut) {
  scratch_.write("file.part", std::string(50'000, 'x'));
  EXPECT_TRUE(get({"good", "good"}).ok());
  EXPECT_TRUE(arrived());
}

TEST_F(DownloadTest, MoreBytesThanTheFileHasAreRefused) {
  const Status status = get({"long"});
  EXPECT_THAT(std::string(status.message()), HasSubstr("more than the 100000 bytes"));
  EXPECT_TRUE(nothingNamed());
}

TEST_F(DownloadTest, AServerThatStallsIsGivenUp) {
  const auto began = std::chrono::steady_clock::now();
  const Status status = get({"stall", "good"}, 1);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(arrived());
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20));
}

TEST_F(DownloadTest, SaysWhatEachMirrorAnswered) {
  const Status status = get({"missing", "lie"});
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("file could not be fetched"), HasSubstr("/missing: "),
                    HasSubstr("404"), HasSubstr("/lie: ")));
}

TEST_F(DownloadTest, CopiesFromAFolder) {
  EXPECT_TRUE(download(wanted(), {scratch_.at("content")}, {}).ok());
  EXPECT_TRUE(arrived());
  EXPECT_FALSE(
      download({.path = scratch_.at("other"), .md5 = kMd5}, {"/nowhere/content"}, {}).ok());
}

TEST(PublishedSetsTest, RowsAreWhole) {
  for (const PublishedSet& set : publishedSets()) {
    EXPECT_EQ(set.byHand.empty(), !set.files.empty()) << set.name;
    EXPECT_EQ(set.byHand.empty(), !set.mirrors.empty()) << set.name;
    for (const PublishedFile& file : set.files) {
      EXPECT_EQ(file.md5.size(), 32u) << file.name;
      EXPECT_EQ(file.md5.find_first_not_of("0123456789abcdef"), std::string_view::npos)
          << file.name;
    }
    for (const std::string_view mirror : set.mirrors) EXPECT_TRUE(mirror.ends_with('/')) << mirror;
  }
  EXPECT_EQ(findSet("nosuch"), nullptr);
}

}  // namespace
}  // namespace colla::fetch
