#include "study/probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace colla::study {
namespace {

constexpr std::int64_t kSteps = 4;

// What a training says of itself in the manifest of its checkpoint.
nlohmann::json manifestIn(const std::string& training) {
  std::error_code error;
  for (std::filesystem::directory_iterator each(training + "/checkpoints", error), end;
       !error && each != end; each.increment(error)) {
    std::ifstream file(each->path() / "manifest.json");
    auto json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
    if (json.is_object()) return json;
  }
  return nlohmann::json::object();
}

// The first steps are slow, some of them a hundred times: the fastest one comes nearest to what a
// step of a long run takes.
double fastestStep(const Curve& curve) {
  double fastest = secondsPerStep(curve);
  for (const CurvePoint& point : curve.points) fastest = std::min(fastest, point.end - point.start);
  return fastest;
}

// "colla train: there is no …" is about this study.
std::string withoutProgram(std::string line) {
  const auto colon = line.find(": ");
  const bool program = colon != std::string::npos &&
                       line.substr(0, colon).find('/') == std::string::npos &&
                       (line.starts_with("colla") || colon < 40);
  return program ? line.substr(colon + 2) : line;
}

}  // namespace

std::string rootRoleOf(const Program& program, const Variant& variant) {
  if (program.kind == Program::Kind::kScript) return "launcher";
  const auto parsed = parseStrategy(variant.strategy);
  const bool processes = parsed.ok() && traitsOf(*parsed).workers == WorkerKind::kProcesses;
  return processes && variant.workers + variant.servers > 1 ? "launcher" : "worker";
}

Result<Probing> probe(Runner& runner, const Program& program, const RunSettings& settings,
                      const std::vector<Variant>& variants, const std::string& directory,
                      const std::function<void(const std::string& line)>& says) {
  Probing probing;
  const auto train = [&](const Variant& variant, bool evaluates) -> Result<RunResult> {
    Variant brief = variant;
    const std::int64_t updates = brief.inStep() ? 1 : brief.workers;
    brief.steps = kSteps * updates;
    brief.evalEvery = evaluates ? brief.steps : 0;
    brief.saveEvery = 0;
    RunJob job;
    job.directory = directory;
    job.command = commandOf(program, brief, settings, settings.seed, directory);
    job.rootRole = rootRoleOf(program, brief);
    job.inStep = brief.inStep();
    job.brief = true;
    job.limit = std::chrono::seconds(600);
    return runner.run(job, [] {});
  };
  const auto note = [&](const std::string& name, const RunResult& run, const Variant& variant) {
    Probe& taken = probing.probes[name];
    // Of ps-async, worker 0 may not have come to two steps of its own.
    taken.stepSeconds =
        run.curves.empty() ? probing.probes["single"].stepSeconds : fastestStep(run.curves.front());
    taken.startSeconds =
        std::max(0.0, run.seconds - taken.stepSeconds * static_cast<double>(variant.steps));
    taken.workers = variant.workers;
    taken.batch = variant.batch > 0 ? variant.batch : probing.batch;
  };

  for (const Variant& variant : variants) {
    // The first one: others differ from it in their threads.
    const bool baseline = &variant == variants.data();
    says(baseline ? "one worker" : variant.label);
    Variant brief = variant;
    brief.steps = kSteps;
    COLLA_TRY_ASSIGN(const RunResult run, train(variant, false));
    if (!run.done()) {
      if (baseline) return {StatusCode::kInvalidArgument, withoutProgram(run.error)};
      if (variant.purpose != Purpose::kBaseline) {
        probing.refused.emplace_back(variant.strategy, withoutProgram(run.error));
      }
      continue;
    }
    if (!baseline) {
      note(variant.purpose == Purpose::kBaseline ? variant.id : variant.strategy, run, brief);
      continue;
    }
    const auto manifest = manifestIn(directory + "/training");
    probing.batch = manifest.value("global_batch", std::int64_t{0});
    probing.data = manifest.value("data", std::string());
    probing.torchVersion = manifest.value("torch_version", std::string());
    note("single", run, brief);
    // The same again, with an evaluation: what is longer is the evaluation.
    COLLA_TRY_ASSIGN(const RunResult evaluated, train(variant, true));
    probing.probes["single"].evaluationSeconds = std::max(0.0, evaluated.seconds - run.seconds);
  }
  std::error_code error;
  std::filesystem::remove_all(directory, error);
  return probing;
}

}  // namespace colla::study
