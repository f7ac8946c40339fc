// The words that every vocabulary begins with.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace colla::data {

inline constexpr std::int32_t kPad = 0;
inline constexpr std::int32_t kSentenceBegin = 1;
inline constexpr std::int32_t kSentenceEnd = 2;
inline constexpr std::int32_t kUnknownWord = 3;
inline constexpr std::array<std::string_view, 4> kSpecialWords = {"<pad>", "<s>", "</s>", "<unk>"};
inline constexpr auto kFirstWord = static_cast<std::int32_t>(kSpecialWords.size());

}  // namespace colla::data
