// The files are read by a parser that shares no code with their writer and, where a Python with
// TensorBoard is at hand (COLLA_TENSORBOARD_PYTHON names it; python3 otherwise), by TensorBoard.
#include "observe/event_writer.h"

#include <gmock/gmock.h>
#include <sys/wait.h>

#include <array>
#include <bit>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>

#include "observe/fixture.h"

namespace colla::observe {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

std::uint32_t slowCrc(std::string_view bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78 : 0);
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8;
}

template <typename T>
T take(std::string_view& bytes) {
  T value{};
  if (bytes.size() < sizeof(T)) {
    ADD_FAILURE() << "cut off";
    bytes = {};
    return value;
  }
  std::memcpy(&value, bytes.data(), sizeof(T));
  bytes.remove_prefix(sizeof(T));
  return value;
}

std::vector<std::string> records(std::string_view file) {
  std::vector<std::string> result;
  while (!file.empty()) {
    const std::string_view head = file.substr(0, 8);
    const auto length = take<std::uint64_t>(file);
    EXPECT_EQ(take<std::uint32_t>(file), slowCrc(head));
    const std::string_view data = file.substr(0, length);
    EXPECT_EQ(data.size(), length);
    file.remove_prefix(data.size());
    EXPECT_EQ(take<std::uint32_t>(file), slowCrc(data));
    result.emplace_back(data);
  }
  return result;
}

struct Field {
  std::uint64_t number = 0;
  std::uint64_t bits = 0;  // Of a number.
  std::string bytes;
};

std::uint64_t varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const auto byte = take<std::uint8_t>(bytes);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) break;
  }
  return value;
}

std::vector<Field> fields(std::string_view message) {
  std::vector<Field> result;
  while (!message.empty()) {
    const auto key = varint(message);
    Field field{.number = key >> 3, .bits = 0, .bytes = ""};
    switch (key & 7) {
      case 0:
        field.bits = varint(message);
        break;
      case 1:
        field.bits = take<std::uint64_t>(message);
        break;
      case 2: {
        const auto length = varint(message);
        field.bytes = message.substr(0, length);
        message.remove_prefix(field.bytes.size());
        break;
      }
      case 5:
        field.bits = take<std::uint32_t>(message);
        break;
      default:
        ADD_FAILURE() << "wire type " << (key & 7);
        return result;
    }
    result.push_back(field);
  }
  return result;
}

// "version=…", "start@step", or "tag@step=value" for each value.
std::vector<std::string> told(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string> result;
  for (const std::string& record : records(bytes)) {
    std::int64_t step = 0;
    for (const Field& field : fields(record)) {
      if (field.number == 1) {
        EXPECT_GT(std::bit_cast<double>(field.bits), 1.5e9);
      }
      if (field.number == 2) step = static_cast<std::int64_t>(field.bits);
      if (field.number == 3) result.push_back("version=" + field.bytes);
      if (field.number == 7) result.push_back("start@" + std::to_string(step));
      if (field.number != 5) continue;
      for (const Field& value : fields(field.bytes)) {
        std::ostringstream text;
        for (const Field& part : fields(value.bytes)) {
          if (part.number == 1) text << part.bytes << "@" << step << "=";
          if (part.number == 2) text << std::bit_cast<float>(static_cast<std::uint32_t>(part.bits));
        }
        result.push_back(text.str());
      }
    }
  }
  return result;
}

using EventWriterTest = ObserveTest;

TEST_F(EventWriterTest, WritesWhatAParserReads) {
  auto writer = EventWriter::create(folder_ + "/deep/events");
  ASSERT_TRUE(writer.ok()) << writer.status();
  EXPECT_THAT(writer->path(), MatchesRegex(".*/deep/events/events.out.tfevents.[0-9]{10}\\..+"));
  const std::array<Metric, 2> metrics = {Metric{"loss", 2.5}, Metric{"accuracy", 0.125}};
  ASSERT_TRUE(writer->scalars("train/", 1, metrics).ok());
  ASSERT_TRUE(writer->scalar("rate", 5'000'000'000, -3).ok());
  ASSERT_TRUE(writer->scalar(std::string(300, 't'), 2, 1).ok());  // Lengths of two bytes.
  ASSERT_TRUE(writer->scalar("loss", 3, std::numeric_limits<double>::infinity()).ok());
  ASSERT_TRUE(writer->close().ok());
  EXPECT_THAT(
      told(writer->path()),
      ElementsAre("version=brain.Event:2", "start@1", "train/loss@1=2.5", "train/accuracy@1=0.125",
                  "rate@5000000000=-3", std::string(300, 't') + "@2=1", "loss@3=inf"));
}

TEST_F(EventWriterTest, KillLosesOnlyWhatCameAfterTheLastFlush) {
  const pid_t child = fork();
  if (child == 0) {
    EventWriter::Options options;
    options.clock = &clock_;
    options.flushEvery = 2s;
    auto writer = EventWriter::create(folder_, options);
    if (!writer.ok() || !writer->scalar("a", 1, 1).ok()) _exit(1);
    clock_.advance(2s);
    if (!writer->scalar("a", 2, 2).ok() || !writer->scalar("a", 3, 3).ok()) _exit(1);
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  const std::filesystem::directory_iterator files(folder_);
  EXPECT_THAT(told(files->path()),
              ElementsAre("version=brain.Event:2", "start@1", "a@1=1", "a@2=2"));
}

TEST_F(EventWriterTest, RestartWithinASecondKeepsTheEarlierFile) {
  const auto first = EventWriter::create(folder_);
  const auto second = EventWriter::create(folder_);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_LT(first->path(), second->path());
}

TEST_F(EventWriterTest, SaysWhereItCannotWrite) {
  std::ofstream(folder_ + "/file") << "x";
  EXPECT_THAT(toString(EventWriter::create(folder_ + "/file/events").status()),
              HasSubstr("cannot make the folder " + folder_ + "/file/events: Not a directory"));
}

// What TensorBoard read, or nothing where there is no TensorBoard.
std::optional<std::string> readByTensorBoard(const std::string& folder) {
  const char* python = std::getenv("COLLA_TENSORBOARD_PYTHON");
  const std::string command =
      std::string(python == nullptr ? "python3" : python) + " " + COLLA_READ_EVENTS + " " + folder;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string text;
  std::array<char, 4096> buffer;
  while (const auto size = std::fread(buffer.data(), 1, buffer.size(), pipe.get())) {
    text.append(buffer.data(), size);
  }
  if (text == "no tensorboard\n") return std::nullopt;
  return text;
}

TEST_F(EventWriterTest, TensorBoardReadsItAndForgetsWhatAResumedRunDoesAgain) {
  const auto at = EventWriter::WallTime(1'700'000'000'500ms);
  {
    auto writer = EventWriter::create(folder_);
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (int step = 1; step <= 3; ++step) {
      ASSERT_TRUE(writer->scalar("loss", step, 1.0 / step, at).ok());
    }
  }
  EventWriter::Options options;
  options.resumedStep = 2;
  auto writer = EventWriter::create(folder_, options);
  ASSERT_TRUE(writer.ok()) << writer.status();
  EXPECT_EQ(told(writer->path()).at(1), "start@3");
  ASSERT_TRUE(writer->scalar("loss", 3, 7, at).ok());
  ASSERT_TRUE(writer->scalar("val/accuracy", 3, 0.5, at).ok());
  ASSERT_TRUE(writer->close().ok());

  const auto read = readByTensorBoard(folder_);
  if (!read) GTEST_SKIP() << "no Python with tensorboard (COLLA_TENSORBOARD_PYTHON)";
  EXPECT_EQ(*read,
            "loss 1 1 1700000000.5\nloss 2 0.5 1700000000.5\nloss 3 7 1700000000.5\n"
            "val/accuracy 3 0.5 1700000000.5\n");
}

// A run that goes on from its initial state, or begins again where one got no further than that.
TEST_F(EventWriterTest, TensorBoardForgetsAllWhenARunBeginsAgain) {
  const auto at = EventWriter::WallTime(1'700'000'000'500ms);
  for (const double value : {1.0, 2.0}) {
    auto writer = EventWriter::create(folder_);
    ASSERT_TRUE(writer.ok()) << writer.status();
    EXPECT_EQ(told(writer->path()).at(1), "start@1");
    const int steps = value == 1.0 ? 3 : 2;
    for (int step = 1; step <= steps; ++step) {
      ASSERT_TRUE(writer->scalar("loss", step, value, at).ok());
    }
    ASSERT_TRUE(writer->close().ok());
  }
  const auto read = readByTensorBoard(folder_);
  if (!read) GTEST_SKIP() << "no Python with tensorboard (COLLA_TENSORBOARD_PYTHON)";
  EXPECT_EQ(*read, "loss 1 2 1700000000.5\nloss 2 2 1700000000.5\n");
}

}  // namespace
}  // namespace colla::observe
