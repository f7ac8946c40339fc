#include "data/image/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "colla/random.h"
#include "data/pictures.h"
#include "support/error_of.h"

namespace colla::data {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Result<Image> decode(const std::string& file, std::int64_t maxPixels = kMaxPixels) {
  return decodeImage(std::as_bytes(std::span(file)), "file", maxPixels);
}
std::string decodeErrorOf(const std::string& file, std::int64_t maxPixels = kMaxPixels) {
  return test::errorOf(decode(file, maxPixels));
}

Image noise(ImageSize size) {
  Image image = plain(size, 0, 0, 0);
  Random random(3);
  for (auto& pixel : image.planes) pixel = static_cast<std::uint8_t>(random.below(256));
  return image;
}

// A colour per quarter: JPEG keeps such images nearly as they are.
Image quarters() {
  Image image = plain({32, 48}, 0, 0, 0);
  for (std::size_t i = 0; i < image.planes.size(); ++i) {
    const std::size_t y = i / 48 % 32;
    const std::size_t x = i % 48;
    image.planes[i] = static_cast<std::uint8_t>(40 + 60 * (i / (32 * 48)) + (y < 16 ? 50 : 0) +
                                                (x < 24 ? 30 : 0));
  }
  return image;
}

void expectNear(const Image& image, const Image& expected, int tolerance) {
  ASSERT_EQ(image.size, expected.size);
  ASSERT_EQ(image.planes.size(), expected.planes.size());
  for (std::size_t i = 0; i < image.planes.size(); ++i) {
    ASSERT_NEAR(image.planes[i], expected.planes[i], tolerance) << i;
  }
}

TEST(DecodeTest, PngIsExact) {
  const Image original = noise({13, 29});
  const auto image = decode(pngOf(original));
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->size, original.size);
  EXPECT_EQ(image->planes, original.planes);
}

TEST(DecodeTest, PngOfOtherKinds) {
  const auto grey = decode(greyPngOf(plain({4, 5}, 77, 0, 0)));
  ASSERT_TRUE(grey.ok()) << grey.status();
  EXPECT_EQ(grey->planes.size(), 60);
  EXPECT_THAT(grey->planes, Each(77));
  const auto hidden = decode(transparentPngOf(plain({4, 5}, 200, 200, 200), 0));
  ASSERT_TRUE(hidden.ok()) << hidden.status();
  EXPECT_THAT(hidden->planes, Each(0));
  const auto solid = decode(transparentPngOf(plain({4, 5}, 200, 200, 200), 255));
  EXPECT_THAT(solid->planes, Each(200));
}

// Contract: a colour is the same in 8 and in 16 bits, where a file does not say what they mean.
TEST(DecodeTest, PngOf16BitsHasTheColoursOf8) {
  const Image original = noise({13, 29});
  const auto image = decode(deepPngOf(original));
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->size, original.size);
  EXPECT_EQ(image->planes, original.planes);
}

TEST(DecodeTest, Jpeg) {
  for (const bool progressive : {false, true}) {
    const auto image = decode(jpegOf(quarters(), {.progressive = progressive}));
    ASSERT_TRUE(image.ok()) << image.status();
    expectNear(*image, quarters(), 8);
  }
  const auto grey = decode(jpegOf(plain({9, 7}, 120, 0, 0), {.grey = true}));
  ASSERT_TRUE(grey.ok()) << grey.status();
  expectNear(*grey, plain({9, 7}, 120, 120, 120), 2);
  const auto cmyk = decode(jpegOf(plain({9, 7}, 200, 120, 30), {.cmyk = true}));
  ASSERT_TRUE(cmyk.ok()) << cmyk.status();
  expectNear(*cmyk, plain({9, 7}, 200, 120, 30), 4);
}

TEST(DecodeTest, RefusesDamage) {
  for (const std::string& whole : {jpegOf(noise({64, 64})), pngOf(noise({64, 64})),
                                   jpegOf(noise({64, 64}), {.progressive = true})}) {
    ASSERT_EQ(decodeErrorOf(whole), "fine");
    for (const std::size_t size :
         {3UL, 8UL, 20UL, whole.size() / 4, whole.size() / 2, whole.size() * 3 / 4}) {
      EXPECT_THAT(decodeErrorOf(whole.substr(0, size)),
                  AnyOf(StartsWith("file: a damaged"), StartsWith("file: this is neither")))
          << size << " of " << whole.size();
    }
    // Whatever a byte is changed to, it is an image or an error.
    Random random(1);
    for (int i = 0; i < 300; ++i) {
      std::string changed = whole;
      changed[random.below(changed.size())] = static_cast<char>(random.below(256));
      EXPECT_THAT(decodeErrorOf(changed), AnyOf("fine", StartsWith("file: ")));
    }
  }
  EXPECT_EQ(decodeErrorOf(""), "file: the file is empty");
  EXPECT_EQ(decodeErrorOf("GIF89a"), "file: this is neither a JPEG nor a PNG image");
}

// Contract: pixels that libjpeg makes up for what it can't decode are not taken for an image.
TEST(DecodeTest, RefusesJpegWithOverwrittenPixels) {
  const auto overwritten = [](std::string file, std::string_view bytes) {
    const std::size_t scan = file.find("\xff\xda");
    EXPECT_NE(scan, std::string::npos);
    return file.replace(scan + (file.size() - scan) / 2, bytes.size(), bytes);
  };
  const std::string_view ones("\xff\0\xff\0\xff\0\xff\0\xff\0\xff\0\xff\0\xff\0", 16);
  for (const bool progressive : {false, true}) {
    const std::string whole = jpegOf(noise({64, 64}), {.progressive = progressive});
    // A run of ones is no code of any table.
    EXPECT_THAT(decodeErrorOf(overwritten(whole, ones)),
                AllOf(StartsWith("file: a damaged JPEG image"), HasSubstr("bad Huffman code")));
  }
}

TEST(DecodeTest, RefusesLargeImagesByTheirHeader) {
  EXPECT_EQ(decodeErrorOf(pngOf(noise({8, 9})), 71), "file: an image of 8x9 pixels is too large");
  EXPECT_EQ(decodeErrorOf(jpegOf(noise({8, 9})), 71), "file: an image of 8x9 pixels is too large");
  EXPECT_EQ(decodeErrorOf(jpegOf(noise({8, 9})), 72), "fine");
  // 65535 x 65535, as a header says that is all there is.
  std::string claims = jpegOf(noise({8, 8}));
  const std::size_t frame = claims.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  claims.replace(frame + 5, 4, "\xff\xdc\xff\xdc");
  EXPECT_THAT(decodeErrorOf(claims), AllOf(StartsWith("file: "), HasSubstr("65500")));
}

TEST(DecodeTest, KnowsImagesByName) {
  for (const char* name : {"a.jpg", "A.JPG", "b.jpeg", "c.PNG"}) EXPECT_TRUE(hasImageName(name));
  for (const char* name : {"a.txt", "jpg", "a.jpg.txt", ""}) EXPECT_FALSE(hasImageName(name));
}

}  // namespace
}  // namespace colla::data
