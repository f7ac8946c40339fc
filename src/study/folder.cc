#include "study/folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/invalid.h"

namespace colla::study {
namespace {

namespace fs = std::filesystem;

// Whole, or not at all.
Status writeJsonFile(const std::string& path, const nlohmann::json& json) {
  const std::string aside = path + ".new";
  std::ofstream file(aside, std::ios::binary | std::ios::trunc);
  file << json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
  file.close();
  std::error_code error;
  if (file) fs::rename(aside, path, error);
  if (file && !error) return {};
  return {StatusCode::kIo, fmt::format("cannot write {}", path)};
}

template <typename T>
std::optional<T> readJsonFile(const std::string& path) {
  std::ifstream file(path);
  const auto json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return std::nullopt;
  try {
    return json.get<T>();
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;  // A different version's, or broken.
  }
}

}  // namespace

Status Folder::create() const {
  std::error_code error;
  if (fs::exists(path_ + "/study.json", error)) {
    return invalid(
        "{} holds another study: choose a different --out, or go on with that one: --resume",
        path_);
  }
  if (fs::exists(path_, error) && !fs::is_directory(path_, error)) {
    return invalid("--out is {}, which is a file and not a directory", path_);
  }
  if (fs::is_directory(path_, error) && !fs::is_empty(path_, error)) {
    return invalid("{} holds files that are not a study's: choose a different --out", path_);
  }
  fs::create_directories(runs(), error);
  if (error || access(path_.c_str(), W_OK) != 0) {
    return invalid("cannot write to --out {}: {}", path_,
                   error ? error.message() : std::string("it belongs to somebody else"));
  }
  return {};
}

Result<Study> Folder::load() const {
  const std::string file = path_ + "/study.json";
  std::error_code error;
  if (!fs::exists(file, error)) return invalid("{} holds no study: there is no {}", path_, file);
  auto study = readJsonFile<Study>(file);
  if (!study) return invalid("{} is broken, or of a different version of Colla", file);
  return *std::move(study);
}

Status Folder::save(const Study& study) const {
  return writeJsonFile(path_ + "/study.json", study);
}

std::string Folder::runOf(const std::string& variant, int repeat) const {
  return fmt::format("{}/{}/{}", runs(), variant, repeat);
}

std::optional<RunResult> Folder::result(const std::string& variant, int repeat) const {
  return readJsonFile<RunResult>(runOf(variant, repeat) + "/result.json");
}

Status Folder::saveResult(const RunResult& run) const {
  return writeJsonFile(runOf(run.variant, run.repeat) + "/result.json", run);
}

void Folder::removeCheckpoints(const std::string& variant, int repeat) const {
  std::error_code error;
  const std::string run = runOf(variant, repeat);
  for (fs::recursive_directory_iterator each(run, error), end; !error && each != end;
       each.increment(error)) {
    if (each->is_directory(error) && each->path().filename() == "checkpoints") {
      each.disable_recursion_pending();
      std::error_code ignored;
      fs::remove_all(each->path(), ignored);
    }
  }
}

}  // namespace colla::study
