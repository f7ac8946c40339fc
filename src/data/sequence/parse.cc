#include "data/sequence/parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <system_error>
#include <unordered_map>

#include "data/lines.h"
#include "data/sequence/letters.h"

namespace colla::data {
namespace {

bool isLabelNumber(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 0 &&
         value <= kMaxLabel;
}

std::string printable(char letter) {
  const auto code = static_cast<unsigned char>(letter);
  return std::isprint(code) != 0 ? fmt::format("'{}'", letter) : fmt::format("0x{:02x}", code);
}

// In FASTA.
bool isRemark(std::string_view line) {
  return line.starts_with(';') || line.find_first_not_of(" \t") == std::string_view::npos;
}

bool isFasta(std::span<const std::byte> file) {
  Lines lines(file);
  while (lines.next()) {
    if (!isRemark(lines.line())) return lines.line().starts_with('>');
  }
  return false;
}

class Parser {
 public:
  Parser(std::span<const std::byte> file, std::string_view name, Share share,
         LabelledSequences& sequences)
      : lines_(file), name_(name), share_(share), sequences_(sequences) {
    for (std::size_t i = 0; i < sequences.labels.size(); ++i) {
      places_.emplace(sequences.labels[i], static_cast<std::int64_t>(i));
    }
  }

  Status table();
  Status fasta();
  std::int64_t count() const { return count_; }

 private:
  Status wrong(std::int64_t line, std::string_view what) const {
    return {StatusCode::kIo, fmt::format("{}:{}: {}", name_, line, what)};
  }
  Status append(std::string_view letters);
  // Ends the sequence whose label stands in line `line`.
  Status end(std::string_view label, std::int64_t line);

  Lines lines_;
  std::string_view name_;
  Share share_;
  LabelledSequences& sequences_;
  std::unordered_map<std::string, std::int64_t> places_;
  std::vector<std::uint8_t> letters_;
  std::int64_t count_ = 0;
};

Status Parser::append(std::string_view letters) {
  for (std::size_t i = 0; i < letters.size(); ++i) {
    const std::uint8_t number = letterNumber(letters[i]);
    if (number == kNoLetter) {
      return wrong(
          lines_.number(),
          fmt::format("{} at letter {} stands for no amino acid; there are {}, B, Z, J, X, "
                      "O and U, and _ for padding",
                      printable(letters[i]), i + 1, kAminoAcids));
    }
    letters_.push_back(number);
  }
  return {};
}

Status Parser::end(std::string_view label, std::int64_t line) {
  if (std::ranges::all_of(letters_, [](std::uint8_t letter) { return letter == kPadding; })) {
    return wrong(line, "the sequence is empty");
  }
  const auto [place, isNew] =
      places_.try_emplace(std::string(label), static_cast<std::int64_t>(places_.size()));
  if (isNew) {
    sequences_.labels.emplace_back(label);
    sequences_.numbers = sequences_.numbers && isLabelNumber(label);
  }
  if (takes(share_, count_++)) sequences_.rows.add(letters_, place->second);
  letters_.clear();
  return {};
}

Status Parser::table() {
  while (lines_.next()) {
    const std::string_view line = lines_.line();
    if (line.empty()) continue;
    const std::size_t tab = line.find('\t');
    if (tab == std::string_view::npos) {
      return wrong(lines_.number(), "no tab between a label and its sequence");
    }
    const std::string_view label = line.substr(0, tab);
    if (!isLabelNumber(label)) {
      return wrong(lines_.number(), fmt::format("\"{}\" is no label; labels are whole numbers from "
                                                "0 to {}",
                                                label.substr(0, 40), kMaxLabel));
    }
    COLLA_TRY(append(line.substr(tab + 1)));
    COLLA_TRY(end(label, lines_.number()));
  }
  return {};
}

Status Parser::fasta() {
  std::string_view label;
  std::int64_t header = 0;  // Its line.
  while (lines_.next()) {
    const std::string_view line = lines_.line();
    if (isRemark(line)) continue;
    if (!line.starts_with('>')) {
      COLLA_TRY(append(line));
      continue;
    }
    if (header > 0) COLLA_TRY(end(label, header));
    header = lines_.number();
    const std::size_t before = line.find_last_of("| \t");
    label = before == std::string_view::npos ? "" : line.substr(before + 1);
    if (label.empty()) {
      return wrong(header, "the header does not end with a label behind a | or a space");
    }
  }
  return header > 0 ? end(label, header) : Status();
}

}  // namespace

Status parseSequences(std::span<const std::byte> file, std::string_view name, Share share,
                      LabelledSequences& sequences) {
  Parser parser(file, name, share, sequences);
  COLLA_TRY(isFasta(file) ? parser.fasta() : parser.table());
  if (parser.count() == 0) {
    return {StatusCode::kIo, fmt::format("{}: there are no sequences in it", name)};
  }
  return {};
}

}  // namespace colla::data
