#include "observe/run_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <system_error>

namespace colla::observe {
namespace {

constexpr std::string_view kHeader = "step\tstart\tend\tloss\taccuracy";

// How much of a log stays.
struct Kept {
  std::uintmax_t bytes = 0;
  double end = 0;  // Of its last step.
};

// Everything up to the first row that is not one, or is of a later step.
Result<Kept> readKept(const std::string& path, std::int64_t lastStep) {
  Kept kept;
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) return kept;  // To make one may tell why.
  std::string line;
  // A line without a line feed at its end was cut by a crash.
  const auto next = [&] { return std::getline(file, line) && !file.eof(); };
  if (!next()) {
    // Nothing, or a crash came before the header was out.
    if (kHeader.starts_with(line)) return kept;
    line.clear();
  }
  if (line != kHeader) {
    return {StatusCode::kInvalidArgument,
            fmt::format("{} exists and is not the log of a run: move it away, or choose another "
                        "directory",
                        path)};
  }
  kept.bytes = line.size() + 1;
  if (lastStep <= 0) return kept;
  while (next()) {
    long long step = 0;
    double end = 0;
    int used = 0;
    const int fields = std::sscanf(line.c_str(), "%lld\t%*f\t%lf\t%*f\t%*f%n", &step, &end, &used);
    const bool whole = fields == 2 && static_cast<std::size_t>(used) == line.size();
    if (!whole || step > lastStep) break;
    kept.bytes += line.size() + 1;
    kept.end = end;
  }
  return kept;
}

double accuracyOf(Metrics metrics) {
  const auto found = std::ranges::find(metrics, "accuracy", &Metric::name);
  return found == metrics.end() ? std::numeric_limits<double>::quiet_NaN() : found->value;
}

}  // namespace

Result<RunLog> RunLog::open(const std::string& path, const Options& options) {
  COLLA_TRY_ASSIGN(const Kept kept, readKept(path, options.resumedStep));
  COLLA_TRY_ASSIGN(AppendFile file, AppendFile::open(path, AppendFile::Mode::kAppend,
                                                     options.flushEvery, *options.clock));
  std::error_code error;
  std::filesystem::resize_file(path, kept.bytes, error);
  if (error) {
    return {StatusCode::kIo, fmt::format("cannot shorten {}: {}", path, error.message())};
  }
  if (kept.bytes == 0) COLLA_TRY(file.append(fmt::format("{}\n", kHeader)));
  COLLA_TRY(file.flush());
  return RunLog(std::move(file), kept.end);
}

Status RunLog::step(const Step& step) {
  line_.clear();
  fmt::format_to(std::back_inserter(line_), "{}\t{:.6f}\t{:.6f}\t{:.9g}\t{:.6f}\n", step.number,
                 offset_ + step.start, offset_ + step.end, step.loss, accuracyOf(step.metrics));
  return file_.append(line_);
}

}  // namespace colla::observe
