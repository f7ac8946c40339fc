#include "launch/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <system_error>

#include "base/terminal.h"
#include "launch/pseudo_terminal.h"

namespace colla::launch {
namespace {

bool wantsColour(int fd) {
  const char* noColour = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  return isTerminal(fd) && (noColour == nullptr || *noColour == '\0') &&
         (terminal == nullptr || std::strcmp(terminal, "dumb") != 0);
}

std::vector<std::string> prefixes(const Plan& plan, bool prefix, int fd) {
  // Readable on dark and on light ground.
  constexpr std::array kColours = {36, 33, 35, 32, 34, 31};
  const bool colour = wantsColour(fd);
  std::vector<std::string> result(plan.processes.size());
  for (std::size_t i = 0; prefix && i < result.size(); ++i) {
    const std::string name = plan.processes[i].name();
    result[i] = colour ? fmt::format("\033[{}m[{}]\033[0m ", kColours[i % kColours.size()], name)
                       : fmt::format("[{}] ", name);
  }
  return result;
}

// "2026-07-01 09:30:00.125 ", by this host's clock.
std::string timeOfDay() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm local{};
  localtime_r(&seconds, &local);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%F %T", &local);
  const auto since = std::chrono::floor<std::chrono::milliseconds>(now.time_since_epoch()).count();
  return fmt::format("{}.{:03} ", text.data(), since % 1000);
}

}  // namespace

void QueuedOutput::giveUp(int error) {
  error_ = error;
  queue_.clear();
}

void QueuedOutput::flush() {
  std::size_t sent = 0;
  while (sent < queue_.size()) {
    // The descriptor is shared with others, so it stays as it is, blocking or not; what poll()
    // allows, in portions of PIPE_BUF, does not block.
    pollfd poll{fd_, POLLOUT, 0};
    if (::poll(&poll, 1, 0) <= 0 || (poll.revents & (POLLOUT | POLLERR)) == 0) break;
    const std::string_view rest = std::string_view(queue_).substr(sent);
    std::string_view part = rest.substr(0, PIPE_BUF);
    // Whole lines where possible: standard output and error often end up in the same place.
    const auto end = part.rfind('\n');
    if (part.size() < rest.size() && end != std::string_view::npos) part = part.substr(0, end + 1);
    const ssize_t written = write(fd_, part.data(), part.size());
    if (written < 0 && (errno == EINTR || errno == EAGAIN)) break;
    if (written < 0) return giveUp(errno);
    sent += static_cast<std::size_t>(written);
  }
  queue_.erase(0, sent);
}

Output::Output(const Plan& plan, const RunOptions& options)
    : sinks_{QueuedOutput(STDOUT_FILENO), QueuedOutput(STDERR_FILENO)},
      printers_{
          LinePrinter(prefixes(plan, options.prefix, STDOUT_FILENO), isTerminal(STDOUT_FILENO),
                      options.prefixTimestamps ? timeOfDay : nullptr),
          LinePrinter(prefixes(plan, options.prefix, STDERR_FILENO), isTerminal(STDERR_FILENO),
                      options.prefixTimestamps ? timeOfDay : nullptr)},
      name_(options.name) {
  if (options.verbatim) verbatim_.emplace(/*terminal=*/isTerminal(STDOUT_FILENO));
}

Result<Output> Output::create(const Plan& plan, const RunOptions& options) {
  const std::string& outputDir = options.outputDir;
  if (!outputDir.empty()) {
    std::error_code error;
    std::filesystem::create_directories(outputDir, error);
    if (error) {
      return {StatusCode::kIo,
              fmt::format("cannot make the folder {}: {}", outputDir, error.message())};
    }
  }
  Output output(plan, options);
  for (std::size_t i = 0; i < plan.processes.size(); ++i) {
    for (const Stream stream : {kOut, kErr}) {
      Source source;
      source.process = static_cast<int>(i);
      source.stream = stream;
      COLLA_TRY(output.open(source, plan, outputDir));
      output.sources_.push_back(std::move(source));
    }
  }
  return output;
}

// A pipe or, for a process that should see a terminal, one of those.
Status Output::connect(Source& source, const Plan& plan) {
  if (isVerbatim(source) && isTerminal(STDOUT_FILENO)) {
    auto terminal = PseudoTerminal::like(STDOUT_FILENO);
    if (terminal.ok()) {
      source.reader = std::move(terminal->ours);
      source.writer = std::move(terminal->theirs);
      return {};
    }
    // Where there are none, in some containers, a pipe does as well.
  }
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return {StatusCode::kIo, fmt::format("no pipe for the output of {} processes: {}",
                                         plan.processes.size(), std::strerror(errno))};
  }
  source.reader.reset(ends[0]);
  source.writer.reset(ends[1]);
  return {};
}

Status Output::open(Source& source, const Plan& plan, const std::string& outputDir) {
  source.remote = plan.remote;
  if (!source.remote) {
    COLLA_TRY(connect(source, plan));
    fcntl(source.reader.get(), F_SETFL, O_NONBLOCK);
  }
  if (outputDir.empty()) return {};
  source.fileName = fmt::format("{}/{}.{}", outputDir,
                                plan.processes[static_cast<std::size_t>(source.process)].fileName(),
                                source.stream == kOut ? "out" : "err");
  source.file.reset(
      ::open(source.fileName.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (source.file.valid()) return {};
  return {StatusCode::kIo,
          fmt::format("cannot write {}: {}", source.fileName, std::strerror(errno))};
}

bool Output::isVerbatim(const Source& source) const {
  return verbatim_ && source.process == 0 && source.stream == kOut;
}

std::string& Output::lines(Stream stream) {
  return verbatim_ && stream == kOut ? others_ : sinks_[stream].queue();
}

void Output::resize() {
  for (const Source& source : sources_) {
    if (isVerbatim(source) && source.reader.valid()) {
      copyWindowSize(STDOUT_FILENO, source.reader.get());
    }
  }
}

int Output::writer(std::size_t process, Stream stream) const {
  return sources_[process * 2 + stream].writer.get();
}

void Output::closeWriters() {
  for (Source& source : sources_) source.writer.reset();
}

void Output::prepare(std::vector<pollfd>& polls) {
  for (const QueuedOutput& sink : sinks_) {
    // Even with nothing to write, poll() tells when the reader has gone.
    const auto events = static_cast<short>(sink.empty() ? 0 : POLLOUT);
    polls.push_back({sink.error() != 0 ? -1 : sink.fd(), events, 0});
  }
  polled_.clear();
  for (Source& source : sources_) {
    if (!source.reader.valid() || sinks_[source.stream].full()) continue;
    polls.push_back({source.reader.get(), POLLIN, 0});
    polled_.push_back(&source);
  }
}

void Output::handle(const pollfd* polls, TimePoint now) {
  for (std::size_t i = 0; i < sinks_.size(); ++i) {
    if ((polls[i].revents & POLLERR) != 0) sinks_[i].giveUp(EPIPE);
  }
  for (std::size_t i = 0; i < polled_.size(); ++i) {
    if (polls[sinks_.size() + i].revents != 0 || noMoreWriters_) read(*polled_[i], now);
  }
  for (const Stream stream : {kOut, kErr}) printers_[stream].tick(now, lines(stream));
  finishPrinters();
  writeNow();
}

void Output::finishPrinters() {
  for (const Stream stream : {kOut, kErr}) {
    const bool more = std::ranges::any_of(
        sources_, [&](const Source& source) { return source.stream == stream && !ended(source); });
    if (!more) printers_[stream].finish(lines(stream));
  }
  merge();
}

void Output::noMoreWriters() {
  noMoreWriters_ = true;
  for (Source& source : sources_) {
    if (source.remote) source.file.reset();
  }
  finishPrinters();
}

void Output::add(std::size_t process, Stream stream, std::string_view bytes, TimePoint now) {
  take(sources_[process * 2 + stream], bytes, now);
}

void Output::writeNow() {
  for (QueuedOutput& sink : sinks_) {
    if (sink.error() == 0) {
      sink.flush();
    } else {
      sink.giveUp(sink.error());  // Drops what came in.
    }
  }
}

// Puts the others' lines where they do not disturb what is passed on as it is.
void Output::merge() {
  if (!verbatim_) return;
  std::string& out = sinks_[kOut].queue();
  const bool more = std::ranges::any_of(
      sources_, [&](const Source& source) { return isVerbatim(source) && !ended(source); });
  if (!more && !others_.empty()) verbatim_->interrupt(out);
  verbatim_->interleave(others_, out);
  // On a terminal both of our outputs end up in the same place.
  if (!sinks_[kErr].empty() && isTerminal(STDOUT_FILENO) && isTerminal(STDERR_FILENO)) {
    verbatim_->interrupt(out);
  }
}

void Output::read(Source& source, TimePoint now) {
  std::array<char, 16 * 1024> buffer;
  const ssize_t size = ::read(source.reader.get(), buffer.data(), buffer.size());
  if (size > 0) {
    return take(source, {buffer.data(), static_cast<std::size_t>(size)}, now);
  }
  const bool nothingNow = size < 0 && (errno == EAGAIN || errno == EINTR);
  if (nothingNow && !(noMoreWriters_ && errno == EAGAIN)) return;
  source.reader.reset();
  source.file.reset();
}

void Output::take(Source& source, std::string_view bytes, TimePoint now) {
  store(source, bytes);
  source.tail.add(bytes);
  if (isVerbatim(source)) {
    printers_[kOut].breakLine(others_);
    merge();
    verbatim_->add(bytes, others_, sinks_[kOut].queue());
  } else {
    printers_[source.stream].add(source.process, bytes, now, lines(source.stream));
  }
}

void Output::store(Source& source, std::string_view bytes) {
  while (source.file.valid() && !bytes.empty()) {
    const ssize_t written = write(source.file.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      say(fmt::format("cannot write {} any further: {}", source.fileName, std::strerror(errno)));
      source.file.reset();
      return;
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

TimePoint Output::nextDeadline() const {
  if (noMoreWriters_ && !polled_.empty()) return TimePoint::min();  // Read on without waiting.
  return std::min(printers_[kOut].nextDeadline(), printers_[kErr].nextDeadline());
}

bool Output::done() const {
  const bool allEnded =
      std::ranges::all_of(sources_, [&](const Source& source) { return ended(source); });
  return allEnded && sinks_[kOut].empty() && sinks_[kErr].empty();
}

void Output::say(const std::string& text) {
  printers_[kErr].breakLine(sinks_[kErr].queue());
  sinks_[kErr].queue() += fmt::format("{}: {}\n", name_, text);
}

const Tail& Output::tail(std::size_t process, Stream stream) const {
  return sources_[process * 2 + stream].tail;
}

}  // namespace colla::launch
