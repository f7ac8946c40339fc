#include "observe/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/log.h"
#include "base/terminal.h"

namespace colla::observe {
namespace {

constexpr char kEraseRest[] = "\033[K";

bool canRedraw(std::FILE* file) {
  const char* type = std::getenv("TERM");
  return isTerminal(fileno(file)) && (type == nullptr || std::strcmp(type, "dumb") != 0);
}

// Asked for each time: windows change their size.
int widthOf(std::FILE* file) {
  constexpr int kUsual = 80;
  winsize size{};
  const bool known = ioctl(fileno(file), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : kUsual;
}

}  // namespace

Progress::Progress(std::FILE* file, const Clock& clock)
    : file_(file), clock_(clock), terminal_(canRedraw(file)) {}

Progress::~Progress() { pause(); }

void Progress::begin(const Section& section) {
  pause();
  state_ = {.section = section, .began = clock_.now(), .done = section.already, .samples = 0};
  const std::string title = sectionTitle(section);
  if (!title.empty()) write(title + "\n");
  if (terminal_) draw({}, state_.began);
}

bool Progress::wantsStep() const { return terminal_ && clock_.now() - drawn_ >= kRedraw; }

void Progress::step(std::int64_t done, std::int64_t samples, Metrics metrics) {
  state_.done = done;
  state_.samples = samples;
  if (!terminal_) return;
  const TimePoint now = clock_.now();
  if (now - drawn_ >= kRedraw) draw(metrics, now);
}

void Progress::end(Metrics metrics) {
  const std::string line = sectionEnd(state_, metrics, clock_.now());
  write(terminal_ ? fmt::format("\r{}{}\n", line, kEraseRest) : line + "\n");
  shown_ = false;
}

void Progress::pause() {
  if (shown_) write(fmt::format("\r{}", kEraseRest));
  shown_ = false;
  drawn_ = {};
}

// Over the old line, and only then erases what is left of it: nothing flickers.
void Progress::draw(Metrics metrics, TimePoint now) {
  // A full last column would make some terminals wrap.
  write(fmt::format("\r{}{}", bar(state_, metrics, now, widthOf(file_) - 1), kEraseRest));
  drawn_ = now;
  shown_ = true;
}

// Training does not end because nobody can be told how it gets on.
void Progress::write(const std::string& text) {
  if (failed_) return;
  const bool written = std::fwrite(text.data(), 1, text.size(), file_) == text.size();
  if (written && std::fflush(file_) == 0) return;
  failed_ = true;
  log::warn("cannot write progress any further: {}", std::strerror(errno));
}

}  // namespace colla::observe
