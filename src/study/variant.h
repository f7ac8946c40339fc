// One way to train that a study measures, and the program that it measures: values, and the
// commands that they mean.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "colla/status.h"
#include "colla/strategy.h"

namespace colla::study {

// What is trained.
struct Program {
  enum class Kind {
    kModel,    // `colla train MODEL`.
    kTrainer,  // A program with a Trainer, which takes the same flags.
    kScript,  // Any other program that uses Colla: started by `colla run`, watched by its counters.
  };
  Kind kind = Kind::kModel;
  std::vector<std::string> words;  // The model's name, or the program and its arguments.
  std::vector<std::string> flags;  // Of the model, such as --hidden 50.

  std::string name() const;
};

// Why a variant is in the study.
enum class Purpose {
  kBaseline,     // One worker: what the others are compared with.
  kStrategy,     // More workers.
  kAlternative,  // What one can do instead of distributing the training.
  kPeer,         // A different system with the same model, data and workers.
};

struct Variant {
  std::string id;     // A folder's name: "ps-sync-2".
  std::string label;  // For people: "ps-sync, 2 workers".
  Purpose purpose = Purpose::kStrategy;
  std::string strategy = "single";
  std::string model = {};                 // Instead of the program's own.
  std::string data = {};                  // The same.
  std::vector<std::string> options = {};  // Flags of this variant alone: --staleness 3.
  int workers = 1;
  int servers = 0;
  int slices = 1;
  int threads = 1;         // Of each worker.
  std::int64_t batch = 0;  // Samples per step over all workers; 0: the program's own.
  std::int64_t steps = 0;  // Updates. Those of ps-async have the samples of one worker.
  std::int64_t evalEvery = 0;
  std::int64_t saveEvery = 0;  // Steps between checkpoints; 0: at the end alone.
  std::int64_t warmUp = 0;     // Steps that are not measured; 0: a tenth of them.
  bool slowed = false;         // Its last worker is stopped for half of the time, on purpose.
  int copies = 1;              // Trainings that run side by side and know nothing of each other.
  bool exact = false;          // The strategy promises the bits of one worker.
  std::string remark = {};     // What a reader has to know.
  std::string peer = {};       // The system, where it is not Colla: "tf-async".
  std::vector<std::string> peerWords = {};  // How its trainings are started, without the sizes.

  int processes() const { return copies * (workers + servers); }
  // Every step belongs to all workers, so a pause of one is a pause of all.
  bool inStep() const;
  // What computes at the same time.
  int busyThreads() const { return copies * workers * threads + servers; }
};

// What the runs of a study have in common.
struct RunSettings {
  std::string data;                     // Empty: the model's own.
  std::vector<std::string> hosts = {};  // Flags that say where workers run: -H a:2,b:2.
  std::uint64_t seed = 1;
  bool shuffle = true;
};

// The command of a run, without its first word `colla` if that is where it begins: with `files`
// set, it writes DIR/steps.jsonl and DIR/training.
struct CommandLine {
  bool colla = true;  // The words follow `colla`.
  std::vector<std::string> words;

  std::string text() const;  // As a user types it.
};
CommandLine commandOf(const Program& program, const Variant& variant, const RunSettings& settings,
                      std::uint64_t seed, const std::string& files);

// What --strategies names: a strategy, and perhaps options such as "ps-ssp:staleness=3".
struct StrategyChoice {
  Strategy strategy = Strategy::kSingle;
  std::vector<std::string> options;  // As flags.

  bool exact() const;
  std::string name() const;  // "ps-ssp, staleness 3".
  std::string id() const;    // "ps-ssp-staleness-3".
};
Result<StrategyChoice> parseChoice(std::string_view text);

NLOHMANN_JSON_SERIALIZE_ENUM(Program::Kind, {{Program::Kind::kModel, "model"},
                                             {Program::Kind::kTrainer, "trainer"},
                                             {Program::Kind::kScript, "script"}})
NLOHMANN_JSON_SERIALIZE_ENUM(Purpose, {{Purpose::kBaseline, "baseline"},
                                       {Purpose::kStrategy, "strategy"},
                                       {Purpose::kAlternative, "alternative"},
                                       {Purpose::kPeer, "peer"}})
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Program, kind, words, flags)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Variant, id, label, purpose, strategy, model, data, options,
                                   workers, servers, slices, threads, batch, steps, evalEvery,
                                   saveEvery, warmUp, slowed, copies, exact, remark, peer,
                                   peerWords)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RunSettings, data, hosts, seed, shuffle)

}  // namespace colla::study
