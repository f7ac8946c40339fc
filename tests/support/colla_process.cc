#include "support/colla_process.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>

#include "base/deadline.h"
#include "support/scratch.h"

namespace colla::launch {
namespace {

std::string newMark() {
  static int count = 0;
  std::ostringstream mark;
  mark << "TEST_MARK_OF_COLLA=" << getpid() << "-" << count++ << "-"
       << std::chrono::steady_clock::now().time_since_epoch().count();
  return mark.str();
}

std::array<UniqueFd, 2> makePipe() {
  std::array<int, 2> ends{};
  EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

winsize sizeOf(int columns) {
  winsize size{};
  size.ws_row = 24;
  size.ws_col = static_cast<unsigned short>(columns);
  return size;
}

int countOf(const std::string& text, const std::string& part) {
  int count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

bool MarkedProcess::has(const std::string& variable) const {
  return ('\0' + environment).find('\0' + variable + '\0') != std::string::npos;
}

CollaProcess::CollaProcess(const std::vector<std::string>& arguments)
    : CollaProcess(arguments, Options{}) {}

CollaProcess::CollaProcess(const std::vector<std::string>& arguments, const Options& options)
    : mark_(newMark()) {
  std::vector<std::string> words;
  if (!options.wrapper.empty()) words = {"/bin/sh", "-c", options.wrapper, "sh"};
  words.push_back(options.program);
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  if (options.terminal) {
    int terminal = -1;
    const winsize size = sizeOf(options.columns);
    pid_ = forkpty(&terminal, nullptr, nullptr, &size);
    if (pid_ == 0) {
      putenv(mark_.data());
      setenv("TERM", "xterm", 1);
      unsetenv("NO_COLOR");
      execv(argv[0], argv.data());
      _exit(255);
    }
    EXPECT_GT(pid_, 0);
    outPipe_.reset(terminal);
    readers_.emplace_back([this] { collect(outPipe_.get(), &CollaProcess::out_); });
    return;
  }
  auto [inReader, inWriter] = makePipe();
  auto [outReader, outWriter] = makePipe();
  auto [errReader, errWriter] = makePipe();
  pid_ = fork();
  if (pid_ == 0) {
    dup2(inReader.get(), STDIN_FILENO);
    dup2(outWriter.get(), STDOUT_FILENO);
    dup2(errWriter.get(), STDERR_FILENO);
    putenv(mark_.data());
    execv(argv[0], argv.data());
    _exit(255);
  }
  EXPECT_GT(pid_, 0);
  EXPECT_EQ(write(inWriter.get(), options.input.data(), options.input.size()),
            static_cast<ssize_t>(options.input.size()));
  if (options.keepInput) inPipe_ = std::move(inWriter);
  outPipe_ = std::move(outReader);
  errPipe_ = std::move(errReader);
  if (options.readOutput) {
    readers_.emplace_back([this] { collect(outPipe_.get(), &CollaProcess::out_); });
  }
  readers_.emplace_back([this] { collect(errPipe_.get(), &CollaProcess::err_); });
}

CollaProcess::~CollaProcess() {
  if (!waited_) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  // In a test that failed there may be some left, which would keep the pipes open.
  const auto left = processes();
  EXPECT_TRUE(waited_ || left.empty() || eventually([this] { return gone(); }));
  for (const MarkedProcess& process : processes()) kill(process.pid, SIGKILL);
  for (std::thread& reader : readers_) reader.join();
}

std::vector<MarkedProcess> CollaProcess::processes() const {
  std::vector<MarkedProcess> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc"), closedir);
  while (const dirent* item = readdir(folder.get())) {
    const pid_t pid = std::atoi(item->d_name);
    if (pid <= 0) continue;
    const std::string base = std::string("/proc/") + item->d_name;
    MarkedProcess process{pid, '?', "", readText(base + "/environ")};
    if (!process.has(mark_)) continue;
    const std::string stat = readText(base + "/stat");
    const auto close = stat.rfind(')');
    if (close == std::string::npos) continue;
    process.state = stat[close + 2];
    process.name = stat.substr(stat.find('(') + 1, close - stat.find('(') - 1);
    found.push_back(process);
  }
  return found;
}

pid_t CollaProcess::guardian() const {
  for (const MarkedProcess& process : processes()) {
    if (process.name == "job-guardian") return process.pid;
  }
  return 0;
}

pid_t CollaProcess::member(const std::string& role, int rank) const {
  const pid_t parent = guardian();
  for (const MarkedProcess& process : processes()) {
    const std::string stat = readText("/proc/" + std::to_string(process.pid) + "/stat");
    const auto close = stat.rfind(')');
    if (close == std::string::npos || std::atoi(stat.c_str() + close + 4) != parent) continue;
    if (process.has("COLLA_RANK=" + std::to_string(rank)) && process.has("COLLA_ROLE=" + role)) {
      return process.pid;
    }
  }
  return 0;
}

bool CollaProcess::gone() const { return processes().empty(); }

std::string CollaProcess::out() {
  const MutexLock lock(mutex_);
  return out_;
}

std::string CollaProcess::err() {
  const MutexLock lock(mutex_);
  return err_;
}

bool CollaProcess::says(const std::string& text, int times) {
  return eventually([&] { return countOf(out(), text) >= times; });
}

bool CollaProcess::complains(const std::string& text) {
  return eventually([&] { return countOf(err(), text) > 0; });
}

void CollaProcess::type(const std::string& text) {
  const int fd = inPipe_.valid() ? inPipe_.get() : outPipe_.get();
  EXPECT_EQ(write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

void CollaProcess::resize(int columns) {
  const winsize size = sizeOf(columns);
  EXPECT_EQ(ioctl(outPipe_.get(), TIOCSWINSZ, &size), 0);
}

void CollaProcess::closeOutput() { outPipe_.reset(); }

void CollaProcess::collect(int fd, std::string CollaProcess::*into) {
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t size = read(fd, buffer.data(), buffer.size());
    if (size <= 0) return;
    const MutexLock lock(mutex_);
    (this->*into).append(buffer.data(), static_cast<std::size_t>(size));
  }
}

int CollaProcess::wait() {
  int status = 0;
  const bool ended =
      eventually([&] { return waitpid(pid_, &status, WNOHANG) == pid_; }, std::chrono::seconds(30));
  EXPECT_TRUE(ended) << "colla did not end; it said: " << out() << err();
  if (!ended) return -1;
  waited_ = true;
  // All that wrote are gone, or will be killed by the test that expects otherwise.
  if (gone()) {
    for (std::thread& reader : readers_) reader.join();
    readers_.clear();
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

Ended runToEnd(const std::vector<std::string>& arguments, const CollaProcess::Options& options) {
  CollaProcess process(arguments, options);
  const int code = process.wait();
  return {code, process.out(), process.err()};
}

}  // namespace colla::launch
