// Zip archives as Python's zipfile writes them.
#include "foreign/zip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "support/checkpoints.h"
#include "support/error_of.h"

namespace colla::foreign {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

class ZipTest : public checkpoint::CheckpointTest {
 protected:
  std::string archive() const { return path("a.zip"); }
  void make(const std::string& compression) const {
    const std::string program = "import zipfile\nwith zipfile.ZipFile('" + archive() +
                                "', 'w', zipfile." + compression +
                                ") as file:\n file.writestr('config.json', '{}')\n"
                                " with file.open('model', 'w', force_zip64=True) as entry: "
                                "entry.write(b'weights' * 1000)\n";
    checkpoint::writeText(path("make.py"), program);
    ASSERT_EQ(std::system(("python3 " + path("make.py")).c_str()), 0);
  }
  std::string contents() const {
    const auto bytes = readZipEntry(archive(), "model");
    if (!bytes.ok()) return std::string(bytes.status().message());
    return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
  }
};

TEST_F(ZipTest, ReadsWhatPythonWrites) {
  std::string expected;
  for (int i = 0; i < 1000; ++i) expected += "weights";
  for (const std::string compression : {"ZIP_STORED", "ZIP_DEFLATED"}) {
    make(compression);
    EXPECT_EQ(contents(), expected) << compression;
    EXPECT_EQ(test::errorOf(readZipEntry(archive(), "none")), archive() + " has no entry none");
  }
}

TEST_F(ZipTest, DamageIsFound) {
  for (const std::string compression : {"ZIP_STORED", "ZIP_DEFLATED"}) {
    make(compression);
    const std::string whole = readText(archive());
    const std::string expected = contents();
    for (std::size_t size = 0; size < whole.size(); size += size < 100 ? 1 : 11) {
      checkpoint::writeText(archive(), whole.substr(0, size));
      EXPECT_THAT(contents(), AnyOf(HasSubstr("is no zip archive, or is cut off"),
                                    HasSubstr("is damaged"), HasSubstr("has no entry")))
          << size;
    }
    for (std::size_t at = 0; at < whole.size(); at += 1 + whole.size() / 500) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ 0x08);
      checkpoint::writeText(archive(), damaged);
      // Dates and versions are nobody's business.
      EXPECT_THAT(contents(), AnyOf(expected, HasSubstr(archive()))) << at;
    }
  }
}

}  // namespace
}  // namespace colla::foreign
