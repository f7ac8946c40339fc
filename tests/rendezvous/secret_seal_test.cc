#include "rendezvous/secret_seal.h"

#include <gtest/gtest.h>

#include <string>

namespace colla::rendezvous {
namespace {

TEST(SecretSeal, OnlyTheOneItWasMadeForOpensIt) {
  const auto writer = SealingKey::make();
  const auto reader = SealingKey::make();
  const auto stranger = SealingKey::make();
  const std::string text("the secret\0of a job", 19);
  const auto sealed = writer.seal(text, reader.publicHex(), "job 3");
  ASSERT_TRUE(sealed.ok()) << sealed.status();

  const auto opened = reader.open(*sealed, writer.publicHex(), "job 3");
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(*opened, text);
  EXPECT_FALSE(stranger.open(*sealed, writer.publicHex(), "job 3").ok());
  EXPECT_FALSE(reader.open(*sealed, stranger.publicHex(), "job 3").ok());
  EXPECT_FALSE(reader.open(*sealed, writer.publicHex(), "job 4").ok());
}

TEST(SecretSeal, ChangedTextsDoNotOpen) {
  const auto writer = SealingKey::make();
  const auto reader = SealingKey::make();
  const auto sealed = writer.seal("x", reader.publicHex(), "");
  ASSERT_TRUE(sealed.ok());
  for (std::size_t i = 0; i < sealed->size(); ++i) {
    std::string changed = *sealed;
    changed[i] = changed[i] == '0' ? '1' : '0';
    EXPECT_EQ(reader.open(changed, writer.publicHex(), "").status().code(), StatusCode::kRefused);
  }
  for (const std::string& shorter : {std::string(), sealed->substr(2), sealed->substr(1)}) {
    EXPECT_FALSE(reader.open(shorter, writer.publicHex(), "").ok());
  }
}

TEST(SecretSeal, TheSameTextLooksDifferentEachTime) {
  const auto writer = SealingKey::make();
  const auto reader = SealingKey::make();
  EXPECT_NE(*writer.seal("x", reader.publicHex(), ""), *writer.seal("x", reader.publicHex(), ""));
}

TEST(SecretSeal, RefusesWhatIsNoPublicKey) {
  const auto key = SealingKey::make();
  // The last is a point whose product everybody knows.
  for (const std::string& bad : {std::string(), std::string("abcd"), std::string(64, 'x'),
                                 key.publicHex() + "00", std::string(64, '0')}) {
    EXPECT_EQ(key.seal("x", bad, "").status().code(), StatusCode::kRefused) << bad;
  }
}

}  // namespace
}  // namespace colla::rendezvous
