// The letters of proteins as numbers.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace colla::data {

// 0 is padding ("_"), 1 to 20 are the amino acids in the order of kAminoAcids. B, Z and J stand for
// either of two (21, 22, 23), X for any (24); O and U, which are rare, count as X.
inline constexpr std::uint8_t kPadding = 0;
inline constexpr std::string_view kAminoAcids = "ACDEFGHIKLMNPQRSTVWY";
inline constexpr std::uint8_t kFirstAmbiguous = 21;
inline constexpr int kLetters = 25;
inline constexpr std::uint8_t kNoLetter = 255;

namespace letters_internal {
constexpr std::array<std::uint8_t, 256> makeTable() {
  std::array<std::uint8_t, 256> table{};
  table.fill(kNoLetter);
  const auto set = [&table](char letter, int number) {
    const auto code = static_cast<std::uint8_t>(number);
    table[static_cast<unsigned char>(letter)] = code;
    if (letter >= 'A' && letter <= 'Z') table[letter - 'A' + 'a'] = code;
  };
  set('_', kPadding);
  for (std::size_t i = 0; i < kAminoAcids.size(); ++i) set(kAminoAcids[i], static_cast<int>(i) + 1);
  set('B', 21);
  set('Z', 22);
  set('J', 23);
  for (const char letter : {'X', 'O', 'U'}) set(letter, 24);
  return table;
}
inline constexpr auto kTable = makeTable();
}  // namespace letters_internal

// The number of a letter, upper or lower case; kNoLetter for anything else.
constexpr std::uint8_t letterNumber(char letter) {
  return letters_internal::kTable[static_cast<unsigned char>(letter)];
}

}  // namespace colla::data
