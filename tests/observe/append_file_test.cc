#include "observe/append_file.h"

#include <gmock/gmock.h>

#include "observe/fixture.h"

namespace colla::observe {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using Mode = AppendFile::Mode;

using AppendFileTest = ObserveTest;

TEST_F(AppendFileTest, IsWrittenOutByTimeAndBySize) {
  const std::string path = folder_ + "/file";
  auto file = AppendFile::open(path, Mode::kReplace, 1s, clock_);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(file->append("a").ok());
  clock_.advance(999ms);
  ASSERT_TRUE(file->append("b").ok());
  EXPECT_EQ(readText(path), "");
  clock_.advance(1ms);
  ASSERT_TRUE(file->append("c").ok());
  EXPECT_EQ(readText(path), "abc");
  ASSERT_TRUE(file->append(std::string(AppendFile::kBuffered, 'x')).ok());
  EXPECT_EQ(readText(path).size(), 3 + AppendFile::kBuffered);
}

TEST_F(AppendFileTest, DestructorWritesWhatIsLeft) {
  const std::string path = folder_ + "/file";
  {
    auto file = AppendFile::open(path, Mode::kReplace, 1h, clock_);
    ASSERT_TRUE(file.ok() && file->append("left").ok());
  }
  EXPECT_EQ(readText(path), "left");
}

TEST_F(AppendFileTest, ModesDoWhatTheySay) {
  const std::string path = folder_ + "/file";
  const auto write = [&](Mode mode, std::string_view text) -> Status {
    COLLA_TRY_ASSIGN(auto file, AppendFile::open(path, mode, 1h, clock_));
    COLLA_TRY(file.append(text));
    return file.close();
  };
  ASSERT_TRUE(write(Mode::kCreate, "one").ok());
  EXPECT_EQ(write(Mode::kCreate, "two").code(), StatusCode::kRefused);
  ASSERT_TRUE(write(Mode::kAppend, "two").ok());
  EXPECT_EQ(readText(path), "onetwo");
  ASSERT_TRUE(write(Mode::kReplace, "three").ok());
  EXPECT_EQ(readText(path), "three");
}

TEST_F(AppendFileTest, ErrorsNameThePathAndStay) {
  EXPECT_THAT(toString(AppendFile::open(folder_ + "/no/file", Mode::kReplace, 1s, clock_).status()),
              HasSubstr("cannot write " + folder_ + "/no/file: No such file or directory"));
  auto full = AppendFile::open("/dev/full", Mode::kReplace, 1h, clock_);
  ASSERT_TRUE(full.ok()) << full.status();
  EXPECT_TRUE(full->append("x").ok());
  EXPECT_EQ(full->flush().code(), StatusCode::kIo);
  EXPECT_THAT(toString(full->append("y")),
              HasSubstr("cannot write /dev/full: No space left on device"));
  EXPECT_FALSE(full->close().ok());
}

}  // namespace
}  // namespace colla::observe
