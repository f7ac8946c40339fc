#include "bench/epochs.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

namespace colla::bench {
namespace {

using namespace std::chrono_literals;

constexpr int kWorkers = 4;
constexpr int kChanges = 16;  // Of a training.

struct EpochSystem {
  std::string strategy;
  int servers = 0;

  std::string name() const {
    return servers == 0 ? strategy : fmt::format("{}-{}", strategy, servers);
  }
};

const std::vector<EpochSystem> kEpochSystems = {{"allreduce"}, {"ps-sync", 1}, {"ps-sync", 2}};

// Every measurement is a training of its own, as a user starts it.
class EpochContender : public Contender {
 public:
  EpochContender(Coordinator& coordinator, const EpochSystem& system)
      : coordinator_(coordinator), system_(system), name_(system.name()) {}

  const std::string& name() const override { return name_; }
  Result<double> prepare() override { return 0.0; }

  Result<Timing> measure(long changes) override {
    const std::string file = coordinator_.scratch().path("epochs-" + name_);
    std::vector<std::string> words = {programBeside("colla"), "run", "-np",
                                      fmt::format("{}", kWorkers)};
    if (system_.servers > 0) {
      words.insert(words.end(), {"--ps", fmt::format("{}", system_.servers)});
    }
    words.insert(words.end(), {"--", programBeside("colla-bench-train"), "epochs", system_.strategy,
                               fmt::format("{}", changes), file});
    COLLA_TRY(coordinator_.run({.name = name_, .program = words}, Deadline::after(120s)));
    std::ifstream in(file);
    Timing timing;
    long count = 0;
    for (double seconds = 0; in >> seconds; ++count) {
      timing.seconds += seconds;
      seconds_.push_back(seconds);
    }
    if (count == changes) return timing;
    return {StatusCode::kInternal,
            fmt::format("{} reported {} changes, not {}", name_, count, changes)};
  }

  // By the changes of all rounds: most of them lie between `low` and `high`, which leave out a
  // tenth at each end.
  Record record(const Measurement& outcome) {
    std::ranges::sort(seconds_);
    const std::size_t tenth = seconds_.size() / 10;
    return {{"part", "epochs"},
            {"system", name_},
            {"workers", kWorkers},
            {"servers", system_.servers},
            {"seconds", median(seconds_)},
            {"low_seconds", seconds_[tenth]},
            {"high_seconds", seconds_[seconds_.size() - 1 - tenth]},
            {"most_seconds", seconds_.back()},
            {"rounds", outcome.rounds},
            {"changes", outcome.iterations}};
  }

 private:
  Coordinator& coordinator_;
  const EpochSystem& system_;
  const std::string name_;
  std::vector<double> seconds_;
};

}  // namespace

Result<Records> measureEpochs(Coordinator& coordinator, const CommonOptions& options) {
  ProgressLine progress;
  std::vector<std::unique_ptr<Contender>> contenders;
  for (const EpochSystem& system : kEpochSystems) {
    contenders.push_back(std::make_unique<EpochContender>(coordinator, system));
  }
  RunnerOptions how;
  how.title = "epochs";
  how.rounds = options.rounds;
  how.seconds = 0;
  how.iterations = kChanges;
  how.pointLimit = 600s;
  how.progress = [&](const std::string& line) { progress.show(line); };
  COLLA_TRY_ASSIGN(const auto outcomes, measure(contenders, how));
  Records records;
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    records.push_back(static_cast<EpochContender&>(*contenders[i]).record(outcomes[i]));
  }
  return records;
}

std::string epochsTable(const Records& records) {
  return table(records,
               {textColumn("system", "system"),
                {"servers", [](const Record& record) { return record["servers"].dump(); }},
                numberColumn("change", "seconds", durationText),
                numberColumn("from", "low_seconds", durationText),
                numberColumn("to", "high_seconds", durationText),
                numberColumn("at most", "most_seconds", durationText)},
               {});
}

}  // namespace colla::bench
