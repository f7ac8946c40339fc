#include "study/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>

#include "base/version.h"
#include "study/report_tables.h"

namespace colla::study {
namespace {

using Json = nlohmann::ordered_json;

// Lines of a figure have so many points at most.
constexpr std::size_t kPoints = 240;

std::size_t strideFor(std::size_t count) {
  return std::max<std::size_t>(1, (count + kPoints - 1) / kPoints);
}

Json toJson(const Spread& spread) {
  if (!spread.known()) return nullptr;
  return {
      {"median", spread.median}, {"low", spread.low}, {"high", spread.high}, {"runs", spread.runs}};
}

// A run's losses and accuracies by step and by time.
Json curveOf(const Curve& curve) {
  const std::vector<double> seconds = trainingSeconds(curve);
  Json steps = Json::array();
  const std::size_t stride = strideFor(curve.points.size());
  Json tests = Json::array();
  for (std::size_t i = 0; i < curve.points.size(); ++i) {
    const CurvePoint& point = curve.points[i];
    if (point.evaluated) {
      tests.push_back({{"step", point.step},
                       {"seconds", seconds[i]},
                       {"loss", point.testLoss},
                       {"accuracy", point.testAccuracy < 0 ? Json() : Json(point.testAccuracy)}});
    }
    if (i % stride != 0 && i + 1 != curve.points.size()) continue;
    steps.push_back({{"step", point.step}, {"seconds", seconds[i]}, {"loss", point.loss}});
  }
  return {{"steps", steps}, {"tests", tests}, {"warm_up", curve.warmUp}};
}

Json seriesOf(const RunResult& run) {
  std::map<std::pair<std::string, int>, std::vector<const UseSample*>> places;
  for (const UseSample& use : run.uses) places[{use.role, use.rank}].push_back(&use);
  Json all = Json::array();
  for (const auto& [place, uses] : places) {
    Json seconds = Json::array();
    Json user = Json::array();
    Json system = Json::array();
    Json memory = Json::array();
    const std::size_t stride = strideFor(uses.size());
    for (std::size_t i = stride; i < uses.size(); i += stride) {
      const UseSample& before = *uses[i - stride];
      const UseSample& now = *uses[i];
      const double passed = now.seconds - before.seconds;
      if (passed <= 0) continue;
      const auto rounded = [](double value) { return std::round(value * 1000) / 1000; };
      seconds.push_back(rounded(now.seconds - run.trainingFrom));
      user.push_back(rounded(std::max(0.0, now.user - before.user) / passed));
      system.push_back(rounded(std::max(0.0, now.system - before.system) / passed));
      memory.push_back(std::round(now.resident));
    }
    all.push_back({{"role", place.first},
                   {"rank", place.second},
                   {"seconds", seconds},
                   {"user", user},
                   {"system", system},
                   {"resident", memory}});
  }
  return all;
}

Json sampledOf(const RunResult& run) {
  const auto use = meanUse(run);
  Json roles = Json::object();
  for (const auto& [role, mean] : use) {
    roles[role] = {{"processes", mean.processes},
                   {"user_cores", mean.user},
                   {"system_cores", mean.system},
                   {"resident_bytes", mean.resident},
                   {"proportional_bytes", mean.proportional},
                   {"switches_per_s", mean.switches},
                   {"faults_per_s", mean.faults},
                   {"network_bytes_per_s", mean.network},
                   {"shared_bytes_per_s", mean.shared}};
  }
  return roles;
}

// Of all processes of this host: /proc does not say which of them. Counted from the last sample
// before the training, because a short one may end before the next sample.
double loopbackPerSecond(const RunResult& run) {
  const HostSample* first = nullptr;
  for (const HostSample& sample : run.host) {
    if (first == nullptr || sample.seconds < run.trainingFrom) first = &sample;
  }
  if (first == nullptr || run.host.back().seconds <= first->seconds) return 0;
  return (run.host.back().loopback - first->loopback) / (run.host.back().seconds - first->seconds);
}

Json runOf(const RunResult& run) {
  Json json = {{"repeat", run.repeat},
               {"seed", run.seed},
               {"status", run.status},
               {"command", run.command},
               {"seconds", run.seconds}};
  if (!run.done()) {
    json["error"] = run.error;
    return json;
  }
  json["samples_per_s"] = samplesPerSecond(run);
  json["cores"] = coresInUse(run);
  json["sampling_cores"] = run.seconds > 0 ? run.samplerCost / run.seconds : 0;
  json["curves"] = Json::array();
  for (const Curve& curve : run.curves) json["curves"].push_back(curveOf(curve));
  json["roles"] = sampledOf(run);
  json["loopback_bytes_per_s"] = loopbackPerSecond(run);
  json["time_per_step"] = phasesOf(run);
  // One run of each variant is drawn.
  if (run.repeat == 0) json["utilisation"] = seriesOf(run);
  return json;
}

// Samples of the training set, which a data set's name is followed by: "…: 6000 samples of …".
double samplesOfEpoch(const std::string& data) {
  const auto at = data.find(" samples");
  if (at == std::string::npos) return 0;
  const auto begin = data.find_last_not_of("0123456789", at - 1);
  return std::strtod(data.c_str() + begin + 1, nullptr);
}

// Extrapolated from the median step.
Json secondsPerEpoch(const Summary& summary, const Study& study) {
  const double samples = samplesOfEpoch(study.data);
  const double batch = static_cast<double>(summary.variant.batch);
  // An update of ps-async has a worker's share of the batch.
  const double share = summary.variant.inStep() ? 1 : 1.0 / summary.variant.workers;
  if (samples <= 0 || batch <= 0 || !summary.secondsPerStep.known()) return nullptr;
  return summary.secondsPerStep.median * samples / (batch * share);
}

Json variantOf(const Summary& summary, const Study& study) {
  const Variant& variant = summary.variant;
  Json json = {{"id", variant.id},
               {"label", variant.label},
               {"purpose", Json(variant.purpose)},
               {"strategy", variant.strategy},
               {"peer", variant.peer},
               {"options", variant.options},
               {"workers", variant.workers},
               {"servers", variant.servers},
               {"copies", variant.copies},
               {"slices", variant.slices},
               {"threads", variant.threads},
               {"batch", variant.batch},
               {"steps", variant.steps},
               {"exact", variant.exact},
               {"remark", variant.remark},
               {"oversubscribed", summary.oversubscribed},
               {"runs_done", summary.done},
               {"failures", summary.failures},
               {"samples_per_s", toJson(summary.samplesPerSecond)},
               {"seconds_per_step", toJson(summary.secondsPerStep)},
               {"seconds_per_epoch", secondsPerEpoch(summary, study)},
               {"final_loss", toJson(summary.finalLoss)},
               {"final_accuracy", toJson(summary.finalAccuracy)},
               {"seconds_to_loss", toJson(summary.secondsToLoss)},
               {"missed_loss", summary.missedLoss},
               {"cores", toJson(summary.cores)},
               {"core_seconds_to_loss", toJson(summary.coreSecondsToLoss)},
               {"worker_bytes", toJson(summary.workerMemory)},
               {"server_bytes", toJson(summary.serverMemory)},
               {"speedup", summary.speedup},
               {"efficiency", summary.efficiency},
               {"command", commandOf(study.options.program, variant, study.options.settings,
                                     study.options.settings.seed, "")
                               .text()},
               {"runs", Json::array()}};
  for (const RunResult& run : study.runs) {
    if (run.variant == variant.id) json["runs"].push_back(runOf(run));
  }
  return json;
}

bool isSynthetic(const Study& study) { return study.data.starts_with("synthetic"); }

Status writeFile(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (file) return {};
  return {StatusCode::kIo, fmt::format("cannot write {}", path)};
}

}  // namespace

Json toJson(const Study& study, const Figures& figures, const Advice& advice) {
  Json variants = Json::array();
  for (const Summary& summary : figures.summaries) variants.push_back(variantOf(summary, study));
  std::size_t done = 0;
  for (const RunResult& run : study.runs) done += run.done() ? 1 : 0;
  return {{"format", 1},
          {"study", study.options.study},
          {"program", study.options.program.name()},
          {"data", study.data},
          {"synthetic", isSynthetic(study)},
          {"command", study.command},
          {"began", study.began},
          {"interrupted", study.interrupted},
          {"colla_version", version()},
          {"torch_version", study.torchVersion},
          {"machine", nlohmann::json(study.machine)},
          {"steps", study.options.steps},
          {"seed", study.options.settings.seed},
          {"shuffle", study.options.settings.shuffle},
          {"runs_planned", study.plan.runs.size()},
          {"runs_done", done},
          {"left_out", study.plan.leftOut},
          {"published", nlohmann::json(study.options.published)},
          {"notes", study.notes},
          {"target_losses", figures.targets},
          {"other_cores", figures.otherCores},
          {"baseline", figures.baseline() == nullptr ? "" : figures.baseline()->variant.id},
          {"unit", std::ranges::any_of(study.runs, &RunResult::batches) ? "batches" : "samples"},
          {"loss", figures.testLoss ? "test" : "training"},
          {"advice", nlohmann::json(advice)},
          {"equality", nlohmann::json(study.equality)},
          {"variants", variants}};
}

Status writeReport(const std::string& directory, const Study& study) {
  const Figures figures = figuresOf(study.plan.variants, study.runs, study.machine.cores);
  const Advice advice = adviseFrom(figures, study.machine.cores);
  COLLA_TRY(writeFile(
      directory + "/report.json",
      toJson(study, figures, advice).dump(1, ' ', false, nlohmann::json::error_handler_t::replace) +
          "\n"));
  COLLA_TRY(writeFile(directory + "/runs.csv", runsTable(study)));
  COLLA_TRY(writeFile(directory + "/steps.csv", stepsTable(study)));
  COLLA_TRY(writeFile(directory + "/utilisation.csv", utilisationTable(study)));
  return writeFile(directory + "/equality.csv", equalityTable(study));
}

}  // namespace colla::study
