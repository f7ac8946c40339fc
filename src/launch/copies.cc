#include "launch/copies.h"

#include <fmt/format.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/invalid.h"
#include "launch/processes.h"
#include "launch/program.h"
#include "launch/scratch.h"
#include "launch/ssh.h"
#include "transport/net/keys.h"

namespace colla::launch {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kTarBlock = 512;
constexpr std::uintmax_t kMostBytes = 1U << 30;
constexpr int kNotWritten = 99;  // Of the script on a host.

// Below a user's cache.
constexpr char kFolder[] = "colla/copies";

// What every machine has of its own, and Pythons, which are nothing without their packages.
bool staysWhereItIs(const std::string& program) {
  if (fs::path(program).filename().string().starts_with("python")) return true;
  return std::ranges::any_of(
      std::vector<std::string_view>{"/usr/bin/", "/bin/", "/usr/sbin/", "/sbin/"},
      [&](std::string_view folder) { return program.starts_with(folder); });
}

bool isFile(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

// On a full disk tar may only say how much it wrote. So after a failure the script writes with
// head, whose message names the cause. The first line of tar names it too; the last one only
// reports failure.
std::string whyNotWritten(const Tail& tail) {
  const auto lines = tail.lines();
  for (const std::string_view tool : {"head: ", "tar: ", "mkdir: "}) {
    const auto first = std::ranges::find_if(
        lines, [&](const std::string& line) { return line.starts_with(tool); });
    if (first != lines.end()) return *first;
  }
  return lines.empty() ? "" : lines.back();
}

}  // namespace

std::string tarEntry(std::string_view name, std::string_view content, unsigned mode) {
  std::string header(kTarBlock, '\0');
  const auto put = [&](std::size_t at, std::string_view text) {
    std::ranges::copy(text, header.begin() + static_cast<std::ptrdiff_t>(at));
  };
  put(0, name.substr(0, 100));
  put(100, fmt::format("{:07o}", mode));
  put(108, "0000000");  // Owner and group: whoever unpacks it.
  put(116, "0000000");
  put(124, fmt::format("{:011o}", content.size()));
  put(136, "00000000000");  // No time, so that the same files are the same archive.
  put(148, "        ");
  put(156, "0");
  put(257, std::string_view("ustar\0"
                            "00",
                            8));
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  put(148, fmt::format("{:06o}", sum) + '\0');
  header += content;
  header.resize((header.size() + kTarBlock - 1) / kTarBlock * kTarBlock);
  return header;
}

Status Copies::add(const std::string& path) {
  const std::string name = fs::path(path).filename();
  const auto same = [&](const std::string& other) { return fs::path(other).filename() == name; };
  if (std::ranges::any_of(files_, same)) return {};
  std::error_code error;
  const auto size = fs::file_size(path, error);
  if (error || size > kMostBytes - std::min<std::uintmax_t>(archive_.size(), kMostBytes)) {
    return invalid("--copy can't copy {}: {}", path,
                   error ? error.message() : std::string("it is larger than 1 GiB"));
  }
  std::ifstream file(path, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(file), {}};
  if (!file || content.size() != size) return invalid("--copy can't read {}", path);
  archive_ += tarEntry(name, content, access(path.c_str(), X_OK) == 0 ? 0700 : 0600);
  files_.push_back(path);
  return {};
}

Result<Copies> Copies::of(const std::string& colla, const std::string& program,
                          const std::vector<std::string>& command, std::string_view path) {
  Copies copies;
  COLLA_TRY(copies.add(colla));
  const std::string train = fs::path(colla).parent_path() / "colla-train";
  if (isFile(train)) COLLA_TRY(copies.add(train));
  const auto found = findProgram(program, path);
  if (found.ok() && isFile(*found) && !staysWhereItIs(*found)) {
    COLLA_TRY(copies.add(*found));
  } else if (found.ok() && command.size() > 1) {
    const auto script = std::find_if(command.begin() + 1, command.end(), isFile);
    if (script != command.end()) COLLA_TRY(copies.add(*script));
  }
  copies.archive_.resize(copies.archive_.size() + 2 * kTarBlock);  // The end of an archive.
  const auto key = transport::net::authenticate(
      {}, {std::as_bytes(std::span<const char>(copies.archive_.data(), copies.archive_.size()))});
  for (const std::byte byte : std::span(key).first(16)) {
    copies.hash_ += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  }
  return copies;
}

std::string Copies::placeOf(const std::string& hash, const std::string& file) {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  const std::string chosen = variable("XDG_CACHE_HOME");
  const fs::path cache = chosen.empty() ? fs::path(variable("HOME")) / ".cache" : fs::path(chosen);
  return cache / kFolder / hash / fs::path(file).filename();
}

// Complete folders alone have the name. Two jobs may bring the same at the same time.
std::string Copies::script() const {
  std::string lacking;
  for (const std::string& file : files_) {
    std::error_code error;
    const std::string path = fs::absolute(file, error);
    lacking += fmt::format("[ -e {} ] || lacking=1; ", forShell(path));
  }
  return fmt::format(
      "{}[ \"$lacking\" ] || exit 0; d=${{XDG_CACHE_HOME:-$HOME/.cache}}/{}/{}; "
      "[ -d \"$d\" ] && exit 0; "
      "t=$d.$(uname -n).$$; mkdir -p \"$t\" && tar -x -f - -C \"$t\" && mv -T \"$t\" \"$d\" && "
      "exit 0; "
      "[ ! -d \"$t\" ] || head -c 1048576 /dev/zero >\"$t/room\"; "
      "rm -rf \"$t\"; [ -d \"$d\" ] || exit {}",
      lacking, kFolder, hash_, kNotWritten);
}

Result<int> Copies::send(const std::vector<Hosts::Host>& hosts, const SshOptions& ssh,
                         const Inherited& inherited, int signals, Deadline deadline,
                         std::vector<Complaint>& complaints) const {
  COLLA_TRY_ASSIGN(const Scratch scratch, Scratch::create());
  COLLA_TRY_ASSIGN(const std::string archive, scratch.write("copies.tar", archive_));
  std::vector<ProcessSpec> specs;
  for (const Hosts::Host& host : hosts) {
    if (host.here) continue;
    const std::vector<std::string> words = {"sh", "-c", script()};
    ProcessSpec spec{.name = host.name, .program = {"sh", "-c", "exec \"$@\" <\"$0\"", archive}};
    const auto remote =
        host.node ? srunCommand(*host.node, words) : sshCommand(host.name, ssh, words, 10);
    spec.program.insert(spec.program.end(), remote.begin(), remote.end());
    specs.push_back(std::move(spec));
  }
  if (specs.empty()) return 0;
  COLLA_TRY_ASSIGN(const auto processes, Processes::start(specs, inherited));
  bool interrupted = false;
  Watch watch;
  watch.add(signals, [&] { interrupted = true; });
  processes->addTo(watch);
  while (!interrupted && !processes->allEnded() && !deadline.expired()) {
    watch.wait(deadline.remaining());
  }
  if (interrupted) {
    signalfd_siginfo info{};
    return read(signals, &info, sizeof(info)) == sizeof(info) ? static_cast<int>(info.ssi_signo)
                                                              : SIGTERM;
  }
  for (const Processes::One& one : processes->all()) {
    if (one.end && *one.end != fmt::format("exit code {}", kNotWritten)) continue;
    const std::string why = whyNotWritten(one.tail);
    complaints.push_back(
        {one.name, !one.end
                       ? std::string("it has not taken the copies in time: --start-timeout gives "
                                     "it longer")
                       : fmt::format("the copies can't be written to ~/.cache/{} there{}", kFolder,
                                     why.empty() ? "" : " (" + why + ")")});
  }
  return 0;
}

}  // namespace colla::launch
