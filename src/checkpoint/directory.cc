#include "checkpoint/directory.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/log.h"
#include "base/version.h"
#include "checkpoint/file.h"

namespace colla::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr char kPrefix[] = "step-";
constexpr char kLockName[] = ".lock";
constexpr char kAsidePrefix[] = "set-aside-";
constexpr char kBest[] = "best";
constexpr std::size_t kMostListed = 10;

// Where a checkpoint waits while the one that replaces it takes its place.
std::string replacedName(const std::string& name) { return "." + name + ".replaced"; }

// The step of a name exactly as stepName makes it.
std::optional<std::int64_t> stepOf(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(sizeof(kPrefix) - 1);
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (error != std::errc{} || end != digits.data() + digits.size() || step < 0) return std::nullopt;
  return stepName(step) == name ? std::optional(step) : std::nullopt;
}

// The step of a replaced one.
std::optional<std::int64_t> replacedStepOf(std::string_view name) {
  constexpr std::string_view kEnd = ".replaced";
  if (!name.starts_with('.') || !name.ends_with(kEnd)) return std::nullopt;
  return stepOf(name.substr(1, name.size() - 1 - kEnd.size()));
}

std::string hostName() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

std::string now() {
  const auto time = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(time));
}

Status renamePath(const std::string& from, const std::string& to) {
  return std::rename(from.c_str(), to.c_str()) == 0 ? Status()
                                                    : ioError("rename " + from + " to", to);
}

// What cannot be removed is found again by the next process that saves here.
void remove(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) log::warn("cannot remove {}: {}", path, error.message());
}

std::string listed(const std::map<std::int64_t, std::string>& steps) {
  std::vector<std::int64_t> last;
  for (auto entry = steps.rbegin(); entry != steps.rend() && last.size() < kMostListed; ++entry) {
    last.insert(last.begin(), entry->first);
  }
  return fmt::format("{}{}", last.size() < steps.size() ? "…, " : "", fmt::join(last, ", "));
}

Status noneIn(const std::string& path) {
  return {StatusCode::kNotFound, fmt::format("there is no checkpoint in {}", path)};
}

Status checkStep(const Manifest& manifest, std::int64_t step, const std::string& path) {
  if (manifest.step == step) return {};
  return {StatusCode::kInvalidArgument,
          fmt::format("{} is a checkpoint of step {}: somebody renamed it", path, manifest.step)};
}

}  // namespace

std::string stepName(std::int64_t step) { return fmt::format("{}{:08}", kPrefix, step); }

Result<std::map<std::int64_t, std::string>> Directory::scan() const {
  std::map<std::int64_t, std::string> steps;
  std::map<std::int64_t, std::string> replaced;
  std::error_code error;
  fs::directory_iterator entry(path_, error);
  if (error == std::errc::no_such_file_or_directory) return steps;
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    std::error_code ignored;
    if (!entry->is_directory(ignored)) continue;
    const std::string name = entry->path().filename();
    if (const auto step = stepOf(name)) steps[*step] = name;
    if (const auto step = replacedStepOf(name)) replaced[*step] = name;
  }
  if (error) return {StatusCode::kIo, fmt::format("cannot list {}: {}", path_, error.message())};
  steps.merge(replaced);  // Only where a replacement was interrupted.
  return steps;
}

Result<std::vector<std::int64_t>> Directory::list() const {
  COLLA_TRY_ASSIGN(const auto steps, scan());
  std::vector<std::int64_t> list;
  for (const auto& [step, name] : steps) list.push_back(step);
  return list;
}

std::string Directory::offer(std::int64_t before) const {
  const auto steps = scan();
  if (!steps.ok()) return "";
  for (auto entry = steps->rbegin(); entry != steps->rend(); ++entry) {
    const std::int64_t step = entry->first;
    if (step >= before || !Loaded::open(at(entry->second)).ok()) continue;
    if (offer_ == Offer::kResume) {
      return fmt::format("{} is whole: resume from it with --resume {}", stepName(step), step);
    }
    // As users name a run: without the folder in it.
    const fs::path path(path_);
    const bool inRun = path.filename() == "checkpoints" && path.has_parent_path();
    return fmt::format("{} is whole: take it as {}@{}", stepName(step),
                       (inRun ? path.parent_path() : path).string(), step);
  }
  return "";
}

Result<std::int64_t> Directory::newest() const {
  COLLA_TRY_ASSIGN(const auto steps, list());
  if (steps.empty()) return noneIn(path_);
  return steps.back();
}

Status Directory::markBest(std::optional<std::int64_t> step) {
  COLLA_TRY(own());
  const std::string link = at(kBest);
  std::error_code error;
  if (!step) {
    fs::remove(link, error);
  } else {
    // A link is made aside and renamed: at every moment there is an old or a new one.
    const std::string aside = at(workName(*step));
    fs::remove_all(aside, error);
    fs::create_directory_symlink(stepName(*step), aside, error);
    if (!error) COLLA_TRY(renamePath(aside, link));
  }
  if (error) return {StatusCode::kIo, fmt::format("cannot mark {}: {}", link, error.message())};
  return syncDirectory(path_);
}

Result<std::int64_t> Directory::best() const {
  std::error_code error;
  const fs::path target = fs::read_symlink(at(kBest), error);
  const auto step = error ? std::nullopt : stepOf(target.string());
  if (step && fs::is_directory(at(stepName(*step)), error)) return *step;
  return {StatusCode::kNotFound,
          fmt::format("no checkpoint in {} is marked as the best one: --keep-best METRIC does it",
                      path_)};
}

Result<std::string> Directory::find(std::int64_t step) const {
  COLLA_TRY_ASSIGN(const auto steps, scan());
  const auto found = steps.find(step);
  if (found != steps.end()) return at(found->second);
  if (steps.empty()) return noneIn(path_);
  return {StatusCode::kNotFound,
          fmt::format("there is no step {} in {}, only {}", step, path_, listed(steps))};
}

Status Directory::withOffer(const Status& status, std::int64_t step) const {
  const std::string other = offer(step);
  return {status.code(),
          fmt::format("{}; {}", status.message(),
                      other.empty() ? "there is no whole checkpoint before it" : other)};
}

Result<Loaded> Directory::load(std::int64_t step) const {
  COLLA_TRY_ASSIGN(const std::string path, find(step));
  auto loaded = Loaded::open(path);
  const Status status = loaded.ok() ? checkStep(loaded->manifest(), step, path) : loaded.status();
  if (!status.ok()) return withOffer(status, step);
  return loaded;
}

Result<Loaded> Directory::loadNewest() const {
  COLLA_TRY_ASSIGN(const std::int64_t step, newest());
  return load(step);
}

Result<Manifest> Directory::manifest(std::int64_t step) const {
  COLLA_TRY_ASSIGN(const std::string path, find(step));
  auto manifest = readManifest(path);
  const Status status = manifest.ok() ? checkStep(*manifest, step, path) : manifest.status();
  if (!status.ok()) return withOffer(status, step);
  return manifest;
}

Status Directory::own() {
  if (lock_.valid()) return {};
  std::error_code error;
  if (fs::create_directories(path_, error)) {
    const auto parent = fs::absolute(path_).lexically_normal().parent_path();
    COLLA_TRY(syncDirectory(parent));
  }
  if (error) {
    return {StatusCode::kIo,
            fmt::format("cannot make the directory {}: {}", path_, error.message())};
  }
  return takeLock();
}

Status Directory::takeLock() {
  const std::string path = at(kLockName);
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!fd.valid()) return ioError("create", path);
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      const auto holder = readFile(path, 1000);
      return {
          StatusCode::kRefused,
          fmt::format("{} is in use by another run ({}): end that one, or save elsewhere", path_,
                      holder.ok() && !holder->empty() ? *holder : "it did not say which")};
    }
    // A file system without locks: nobody can tell what is left over, so that stays.
    log::warn("cannot lock {}: {}; make sure that no other run saves there", path,
              std::strerror(errno));
    lock_ = std::move(fd);
    return {};
  }
  lock_ = std::move(fd);
  const std::string holder = fmt::format("process {} on {}", getpid(), hostName());
  // It only helps to explain a refusal: a full disk is reported where it hurts.
  if (ftruncate(lock_.get(), 0) == 0) {
    [[maybe_unused]] const auto written = pwrite(lock_.get(), holder.data(), holder.size(), 0);
  }
  tidy();
  return {};
}

void Directory::tidy() const {
  std::vector<std::string> left;
  std::error_code error;
  fs::directory_iterator entry(path_, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (name.starts_with(std::string(".") + kPrefix)) left.push_back(name);
  }
  for (const std::string& name : left) {
    const auto step = replacedStepOf(name);
    if (step && !fs::exists(at(stepName(*step)), error)) {
      const Status status = renamePath(at(name), at(stepName(*step)));
      if (!status.ok()) log::warn("{}", status.message());
    } else {
      remove(at(name));
    }
  }
}

std::string Directory::workName(std::int64_t step) const {
  return fmt::format(".{}.{}-{}", stepName(step), hostName(), getpid());
}

Result<Saved> Directory::save(Manifest manifest, const Contents& contents) {
  if (manifest.step < 0) {
    return {StatusCode::kInvalidArgument,
            fmt::format("a checkpoint cannot be of step {}", manifest.step)};
  }
  COLLA_TRY(own());
  const std::string name = stepName(manifest.step);
  const std::string aside = at(workName(manifest.step));
  std::error_code error;
  fs::remove_all(aside, error);  // Ours, from a save that failed; mkdir says if that did not do.
  if (::mkdir(aside.c_str(), 0777) != 0) return ioError("create", aside);

  auto saved = writeAside(aside, manifest, contents);
  if (saved.ok()) {
    const Status published = publish(aside, name);
    if (!published.ok()) saved = published;
  }
  if (!saved.ok()) {
    remove(aside);
    const Status status =
        saved.status().withContext(fmt::format("step {} was not saved", manifest.step));
    // One of the same step is still there as well.
    const std::string other = offer(manifest.step + 1);
    if (other.empty()) return status;
    return Status(status.code(), fmt::format("{}; {}", status.message(), other));
  }
  saved->path = at(name);
  return saved;
}

Result<Saved> Directory::writeAside(const std::string& aside, Manifest& manifest,
                                    const Contents& contents) const {
  std::vector<TensorView> model(contents.parameters.begin(), contents.parameters.end());
  model.insert(model.end(), contents.buffers.begin(), contents.buffers.end());
  COLLA_TRY_ASSIGN(FileEntry modelFile, writeTensorFile(aside, kModelFile, model));
  COLLA_TRY_ASSIGN(FileEntry optimizerFile,
                   writeTensorFile(aside, kOptimizerFile, contents.optimizer));

  Saved saved{manifest.step, "", modelFile.bytes + optimizerFile.bytes};
  manifest.files = {std::move(modelFile), std::move(optimizerFile)};
  manifest.buffers.clear();
  for (const TensorView& buffer : contents.buffers) manifest.buffers.push_back(buffer.name);
  manifest.collaVersion = version();
  if (manifest.time.empty()) manifest.time = now();
  const std::string text = encodeManifest(manifest);
  const std::array pieces = {std::as_bytes(std::span(text))};
  COLLA_TRY_ASSIGN(const FileEntry manifestFile, writeFile(aside, kManifestFile, pieces));
  saved.bytes += manifestFile.bytes;
  COLLA_TRY(syncDirectory(aside));
  return saved;
}

Status Directory::publish(const std::string& aside, const std::string& name) const {
  const std::string replaced = at(replacedName(name));
  std::error_code error;
  const bool replaces = fs::exists(at(name), error);
  if (replaces) {
    remove(replaced);
    COLLA_TRY(renamePath(at(name), replaced));
  }
  const Status renamed = renamePath(aside, at(name));
  if (!renamed.ok()) {
    if (replaces) COLLA_TRY(renamePath(replaced, at(name)));
    return renamed;
  }
  COLLA_TRY(syncDirectory(path_));
  if (replaces) remove(replaced);
  return {};
}

Result<std::string> Directory::setAside(std::int64_t step) {
  COLLA_TRY(own());
  COLLA_TRY_ASSIGN(auto steps, scan());
  steps.erase(steps.begin(), steps.upper_bound(step));
  if (steps.empty()) return std::string();
  std::string folder;
  for (int number = 1; folder.empty(); ++number) {
    const std::string name = at(fmt::format("{}{}", kAsidePrefix, number));
    if (::mkdir(name.c_str(), 0777) == 0) {
      folder = name;
    } else if (errno != EEXIST) {
      return ioError("create", name);
    }
  }
  for (auto last = steps.rbegin(); last != steps.rend(); ++last) {
    COLLA_TRY(renamePath(at(last->second), folder + "/" + stepName(last->first)));
  }
  COLLA_TRY(syncDirectory(folder));
  COLLA_TRY(syncDirectory(path_));
  return folder;
}

Status Directory::prune(int keep, std::int64_t newest) {
  COLLA_TRY(own());
  COLLA_TRY_ASSIGN(auto steps, scan());
  steps.erase(steps.upper_bound(newest), steps.end());
  if (const auto spared = best(); spared.ok() && steps.contains(*spared)) {
    // It counts as one of the last if it is one.
    const auto after = std::distance(steps.upper_bound(*spared), steps.end());
    if (after >= keep) steps.erase(*spared);
  }
  std::vector<std::string> removed;
  while (steps.size() > static_cast<std::size_t>(std::max(keep, 0))) {
    const auto oldest = steps.begin();
    // Half removed it would look like a damaged one.
    const std::string aside = at(workName(oldest->first));
    remove(aside);
    COLLA_TRY(renamePath(at(oldest->second), aside));
    removed.push_back(aside);
    steps.erase(oldest);
  }
  if (removed.empty()) return {};
  COLLA_TRY(syncDirectory(path_));
  for (const std::string& path : removed) remove(path);
  return {};
}

}  // namespace colla::checkpoint
