#include "bench/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "bench/units.h"

namespace colla::bench {
namespace {

using namespace std::chrono_literals;

constexpr long kMostIterations = 2'000'000;
// For any single question: large buffers on a crowded machine take their time.
constexpr auto kAnswerLimit = 120s;

// One system at one point.
struct Track {
  const SystemInfo* system;
  long iterations = 1;
  std::vector<double> seconds;
};

class Runner {
 public:
  Runner(Coordinator& coordinator, const RunnerOptions& options)
      : coordinator_(coordinator), options_(options) {}

  Result<std::vector<Measurement>> measure(const std::vector<SystemInfo>& systems, Point point) {
    title_ = toString(point.operation);
    if (point.bytes() > 0) title_ += fmt::format(" {}", bytesText(point.bytes()));
    std::vector<Track> tracks;
    for (const SystemInfo& system : systems) {
      if (system.can(point.operation)) tracks.push_back({&system, 1, {}});
    }
    const Deadline limit = Deadline::after(options_.pointLimit);
    for (Track& track : tracks) COLLA_TRY(prepare(track, point));
    for (int round = 0; round < options_.rounds && (round == 0 || !limit.expired()); ++round) {
      for (Track& track : tracks) {
        say(fmt::format("{}: round {} of {}: {}", title_, round + 1, options_.rounds,
                        track.system->name));
        COLLA_TRY_ASSIGN(const double seconds, time(track));
        track.seconds.push_back(seconds / static_cast<double>(track.iterations));
      }
    }
    std::vector<Measurement> measurements;
    for (const Track& track : tracks) {
      COLLA_TRY(verify(track));  // After all these iterations it must still be right.
      measurements.push_back({.system = track.system->name,
                              .buffers = track.system->buffers,
                              .transport = track.system->transport,
                              .operation = point.operation,
                              .np = options_.np,
                              .bytes = point.bytes(),
                              .seconds = median(track.seconds),
                              .rounds = static_cast<int>(track.seconds.size()),
                              .iterations = track.iterations});
    }
    return measurements;
  }

 private:
  void say(const std::string& line) const {
    if (options_.progress) options_.progress(line);
  }

  Result<std::vector<std::string>> ask(const Track& track, const std::string& line) {
    auto answers = coordinator_.ask(track.system->name, line, Deadline::after(kAnswerLimit));
    if (!answers.ok()) return answers.status().withContext(title_);
    return answers;
  }

  Status verify(const Track& track) { return ask(track, "verify").status(); }

  // Buffers, a checked result, and as many iterations as fit the wanted time; this warms up.
  Status prepare(Track& track, Point point) {
    say(fmt::format("{}: prepare {}", title_, track.system->name));
    COLLA_TRY(ask(track, fmt::format("prepare {} {}", toString(point.operation), point.elements))
                  .status());
    COLLA_TRY(verify(track));
    for (double elapsed = 0; elapsed < options_.seconds / 4;) {
      COLLA_TRY_ASSIGN(elapsed, time(track));
      const long next = nextIterations(track.iterations, elapsed, options_.seconds);
      if (next == track.iterations) break;
      track.iterations = next;
    }
    return {};
  }

  // Of the slowest rank, for all iterations.
  Result<double> time(const Track& track) {
    COLLA_TRY_ASSIGN(const auto answers, ask(track, fmt::format("measure {}", track.iterations)));
    double slowest = 0;
    for (const std::string& answer : answers) {
      double seconds = 0;
      const auto [end, error] =
          std::from_chars(answer.data(), answer.data() + answer.size(), seconds);
      if (error != std::errc() || !(seconds > 0)) {
        return {StatusCode::kInternal,
                fmt::format("{} measured \"{}\" seconds", track.system->name, answer)};
      }
      slowest = std::max(slowest, seconds);
    }
    return slowest;
  }

  Coordinator& coordinator_;
  const RunnerOptions& options_;
  std::string title_;
};

}  // namespace

long nextIterations(long iterations, double elapsed, double target) {
  constexpr double kGrowth = 32;
  const double factor = std::min(target / elapsed, kGrowth);
  const double next = std::floor(static_cast<double>(iterations) * factor);
  return static_cast<long>(std::clamp(next, 1.0, static_cast<double>(kMostIterations)));
}

Result<std::vector<Measurement>> measureAll(Coordinator& coordinator,
                                            const std::vector<SystemInfo>& systems,
                                            const std::vector<Point>& points,
                                            const RunnerOptions& options) {
  Runner runner(coordinator, options);
  std::vector<Measurement> all;
  for (const Point& point : points) {
    COLLA_TRY_ASSIGN(auto measurements, runner.measure(systems, point));
    all.insert(all.end(), measurements.begin(), measurements.end());
  }
  return all;
}

}  // namespace colla::bench
