#include "study/variant.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "base/invalid.h"

namespace colla::study {
namespace {

void append(std::vector<std::string>& words, std::initializer_list<std::string> more) {
  words.insert(words.end(), more);
}

void append(std::vector<std::string>& words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
}

// A word that a shell reads as one.
std::string quotedWord(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

// Only workers that are processes of their own can run on several hosts.
bool takesHosts(const Variant& variant) {
  const auto parsed = parseStrategy(variant.strategy);
  return variant.workers > 1 && parsed.ok() && traitsOf(*parsed).workers == WorkerKind::kProcesses;
}

bool isDefault(const std::string& flag, const std::string& value) {
  return (flag == "staleness" || flag == "backup") && value == "0";
}

}  // namespace

std::string Program::name() const {
  if (kind == Kind::kModel) return words.front();
  // `python train.py` is train.py.
  for (const std::string& word : words) {
    if (word.ends_with(".py")) return std::filesystem::path(word).filename();
  }
  return std::filesystem::path(words.front()).filename();
}

bool Variant::inStep() const {
  const auto parsed = parseStrategy(strategy);
  if (!parsed.ok()) return true;
  const StrategyTraits& traits = traitsOf(*parsed);
  return traits.inStep || !traits.servers;
}

std::string CommandLine::text() const {
  std::vector<std::string> quoted;
  if (colla) quoted.emplace_back("colla");
  for (const std::string& word : words) quoted.push_back(quotedWord(word));
  return fmt::format("{}", fmt::join(quoted, " "));
}

CommandLine commandOf(const Program& program, const Variant& variant, const RunSettings& settings,
                      std::uint64_t seed, const std::string& files) {
  CommandLine line;
  std::vector<std::string>& words = line.words;
  if (variant.purpose == Purpose::kPeer) {
    line.colla = false;
    words = variant.peerWords;
    append(words, {"--workers", std::to_string(variant.workers), "--threads",
                   std::to_string(variant.threads), "--batch", std::to_string(variant.batch),
                   "--steps", std::to_string(variant.steps), "--seed", std::to_string(seed),
                   "--out", files.empty() ? "." : files});
    return line;
  }
  if (program.kind == Program::Kind::kScript) {
    append(words, {"run", "-np", std::to_string(variant.workers), "--threads",
                   std::to_string(variant.threads)});
    if (variant.workers > 1) append(words, {"--strategy", variant.strategy});
    if (variant.servers > 0) append(words, {"--ps", std::to_string(variant.servers)});
    append(words, variant.options);
    if (variant.workers > 1) append(words, settings.hosts);
    if (!files.empty()) append(words, {"--metrics-port", "0", "--no-prefix"});
    append(words, {"--"});
    append(words, program.words);
    return line;
  }
  line.colla = program.kind == Program::Kind::kModel;
  if (line.colla) append(words, {"train"});
  if (variant.model.empty()) append(words, program.words);
  if (!variant.model.empty()) append(words, {variant.model});
  // A different model has flags of its own.
  if (variant.model.empty()) append(words, program.flags);
  const std::string& data = variant.data.empty() ? settings.data : variant.data;
  if (!data.empty()) append(words, {"--data", data});
  append(words, {"--strategy", variant.strategy, "--np", std::to_string(variant.workers)});
  if (variant.servers > 0) append(words, {"--ps", std::to_string(variant.servers)});
  append(words, {"--slices", std::to_string(variant.slices), "--threads",
                 std::to_string(variant.threads)});
  if (variant.batch > 0) append(words, {"--batch", std::to_string(variant.batch)});
  append(words, {"--steps", std::to_string(variant.steps), "--seed", std::to_string(seed)});
  if (!settings.shuffle) append(words, {"--no-shuffle"});
  append(words, variant.options);
  if (takesHosts(variant)) append(words, settings.hosts);
  if (variant.evalEvery > 0) {
    append(words, {"--eval-every", std::to_string(variant.evalEvery)});
  } else {
    append(words, {"--no-eval"});
  }
  if (files.empty()) return line;
  // What belongs to the measurement, and not to the training.
  append(words, {"--checkpoint-dir", files + "/training", "--json", files + "/steps.jsonl",
                 "--quiet", "--metrics-port", "0"});
  if (variant.saveEvery > 0) {
    append(words, {"--save-every", std::to_string(variant.saveEvery), "--keep", "all"});
  }
  return line;
}

bool StrategyChoice::exact() const { return traitsOf(strategy).sameBits && options.empty(); }

std::string StrategyChoice::name() const {
  std::string text(toString(strategy));
  for (std::size_t i = 0; i + 1 < options.size(); i += 2) {
    text += fmt::format(", {} {}", options[i].substr(2), options[i + 1]);
  }
  return text;
}

std::string StrategyChoice::id() const {
  std::string text(toString(strategy));
  for (std::size_t i = 0; i + 1 < options.size(); i += 2) {
    text += fmt::format("-{}-{}", options[i].substr(2), options[i + 1]);
  }
  return text;
}

Result<StrategyChoice> parseChoice(std::string_view text) {
  StrategyChoice choice;
  std::string_view rest = text;
  const auto colon = rest.find(':');
  COLLA_TRY_ASSIGN(choice.strategy, parseStrategy(rest.substr(0, colon)));
  rest = colon == std::string_view::npos ? std::string_view() : rest.substr(colon + 1);
  while (!rest.empty()) {
    const auto end = rest.find(':');
    const std::string_view option = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    const auto equals = option.find('=');
    if (equals == std::string_view::npos || equals == 0 || equals + 1 == option.size()) {
      return invalid("\"{}\" is not a strategy with options: write it as ps-ssp:staleness=3", text);
    }
    const std::string flag(option.substr(0, equals));
    const std::string value(option.substr(equals + 1));
    const auto& takes = traitsOf(choice.strategy).options;
    if (std::ranges::find(takes, flag) == takes.end()) {
      return invalid(
          "{} has no option \"{}\"; it takes {}", toString(choice.strategy), flag,
          takes.empty() ? std::string("none") : fmt::format("{}", fmt::join(takes, ", ")));
    }
    if (isDefault(flag, value)) continue;
    choice.options.push_back("--" + flag);
    choice.options.push_back(value);
  }
  return choice;
}

}  // namespace colla::study
