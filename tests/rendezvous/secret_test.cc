#include "rendezvous/secret.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "rendezvous/secret_descriptor.h"

namespace colla::rendezvous {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class SecretTest : public ::testing::Test {
 protected:
  void write(const std::string& content, mode_t mode = 0600) {
    std::ofstream(path_, std::ios::binary) << content;
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
  }
  void TearDown() override { unlink(path_.c_str()); }
  std::string errorOf(const char* hex, const std::string& path) {
    return toString(loadSecret(hex, path).status());
  }
  const std::string path_ = ::testing::TempDir() + "secret_test." + std::to_string(getpid());
  const std::string good_ = "a secret of more than 32 bytes, at last";
};

TEST_F(SecretTest, RandomOnesDifferAndSurviveTheEnvironment) {
  const std::string secret = makeSecret();
  EXPECT_EQ(secret.size(), 32U);
  EXPECT_NE(secret, makeSecret());
  EXPECT_EQ(*loadSecret(secretToHex(secret).c_str(), ""), secret);
}

TEST_F(SecretTest, NeitherIsEmptyAndTheEnvironmentComesFirst) {
  EXPECT_EQ(*loadSecret(nullptr, ""), "");
  write(good_ + "\n");
  EXPECT_EQ(*loadSecret(nullptr, path_), good_);
  EXPECT_EQ(*loadSecret("", path_), good_);
  EXPECT_EQ(*loadSecret(std::string(64, 'a').c_str(), path_), std::string(32, '\xaa'));
}

TEST_F(SecretTest, FilesThatOthersCanReadAreRefused) {
  for (const mode_t mode : {0640, 0604, 0660, 0666, 0644}) {
    write(good_, mode);
    EXPECT_THAT(errorOf(nullptr, path_), AllOf(HasSubstr("refused: secret file " + path_),
                                               HasSubstr("chmod 600"), Not(HasSubstr(good_))));
  }
}

TEST_F(SecretTest, ShortLongMissingAndOddOnesAreRefused) {
  write("too short\n\n");
  EXPECT_THAT(errorOf(nullptr, path_),
              AllOf(HasSubstr("has 9 bytes"), Not(HasSubstr("too short\n"))));
  write(std::string(5000, 'x'));
  EXPECT_THAT(errorOf(nullptr, path_), HasSubstr("longer"));
  EXPECT_THAT(errorOf(nullptr, path_ + ".none"), HasSubstr("cannot be read"));
  EXPECT_THAT(errorOf(nullptr, ::testing::TempDir()), HasSubstr("is not a file"));
  for (const std::string& hex :
       {std::string("abc"), std::string(62, 'a'), std::string(65, 'a'), std::string(64, 'g')}) {
    EXPECT_THAT(errorOf(hex.c_str(), ""), AllOf(HasSubstr("COLLA_SECRET"), Not(HasSubstr(hex))));
  }
}

TEST_F(SecretTest, FilesOfOthersAreRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to give a file away";
  write(good_);
  ASSERT_EQ(chown(path_.c_str(), 65534, 65534), 0);
  EXPECT_THAT(errorOf(nullptr, path_), HasSubstr("another user"));
}

// As a program that starts the next one without its descriptors, which Python's subprocess does.
TEST_F(SecretTest, DescriptorIsFoundWhereAnAncestorHasIt) {
  const std::string secret = makeSecret();
  auto memory = makeSecretDescriptor(secret);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(*readSecretDescriptor(memory->get()), secret);
  EXPECT_EQ(*readSecretDescriptor(memory->get()), secret);  // As often as one likes.
  EXPECT_LT(pwrite(memory->get(), "x", 1, 0), 0);
  const int number = memory->get();
  const pid_t child = fork();
  if (child == 0) {
    const UniqueFd other(open("/etc/passwd", O_RDONLY));
    dup2(other.get(), number);  // The number means a different file here.
    const auto found = readSecretDescriptor(number);
    _exit(found.ok() && *found == secret ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  memory->reset();
  EXPECT_THAT(toString(readSecretDescriptor(number).status()), HasSubstr("COLLA_SECRET_FD is"));
}

}  // namespace
}  // namespace colla::rendezvous
