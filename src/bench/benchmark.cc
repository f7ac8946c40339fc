#include "bench/benchmark.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <utility>

namespace colla::bench {
namespace {

int failure(const Status& status) {
  fmt::print(stderr, "colla bench: {}\n", status.message());
  return 1;
}

}  // namespace

void ProgressLine::show(const std::string& line) {
  if (!watched_) return;
  std::fprintf(stderr, "\r\033[K%s", line.c_str());
  std::fflush(stderr);
  shown_ = true;
}

void ProgressLine::clear() {
  if (std::exchange(shown_, false)) std::fputs("\r\033[K", stderr);
}

int runBenchmark(const std::string& jsonFile,
                 const std::function<Result<Findings>(Coordinator& coordinator)>& measure) {
  std::ofstream jsonOut;
  if (!jsonFile.empty()) {  // Now, rather than after minutes of measuring.
    jsonOut.open(jsonFile, std::ios::app);
    if (!jsonOut) {
      return failure(
          {StatusCode::kIo, fmt::format("cannot write {}: {}", jsonFile, std::strerror(errno))});
    }
    jsonOut.close();
  }
  auto coordinator = Coordinator::create();
  if (!coordinator.ok()) return failure(coordinator.status());
  const auto findings = measure(**coordinator);
  if (!findings.ok()) {
    failure(findings.status());
    return (*coordinator)->signal() != 0 ? 128 + (*coordinator)->signal() : 1;
  }
  fmt::print("{}", findings->table);
  if (!jsonFile.empty()) {
    jsonOut.open(jsonFile, std::ios::trunc);
    jsonOut << findings->json;
    jsonOut.close();
    if (!jsonOut) return failure({StatusCode::kIo, "cannot write " + jsonFile});
  }
  return 0;
}

}  // namespace colla::bench
