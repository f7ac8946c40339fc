#include "study/report_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "study/report.h"

namespace colla::study {
namespace {

using Json = nlohmann::ordered_json;

// A field of CSV: quoted where it has to be.
std::string fieldOf(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string numberOrNothing(bool known, double value) {
  return known ? fmt::format("{:.9g}", value) : "";
}

}  // namespace

std::map<std::string, MeanUse> meanUse(const RunResult& run) {
  struct Ends {
    const UseSample* first = nullptr;
    const UseSample* last = nullptr;
    double resident = 0;
    double proportional = 0;
  };
  std::map<std::pair<std::string, int>, Ends> places;
  for (const UseSample& use : run.uses) {
    if (use.seconds < run.trainingFrom) continue;
    Ends& ends = places[{use.role, use.rank}];
    if (ends.first == nullptr) ends.first = &use;
    ends.last = &use;
    ends.resident = std::max(ends.resident, use.resident);
    ends.proportional = std::max(ends.proportional, use.proportional);
  }
  std::map<std::string, MeanUse> roles;
  for (const auto& [place, ends] : places) {
    MeanUse& role = roles[place.first];
    ++role.processes;
    role.resident += ends.resident;
    role.proportional += ends.proportional;
    const double seconds = ends.last->seconds - ends.first->seconds;
    if (seconds <= 0) continue;
    role.user += (ends.last->user - ends.first->user) / seconds;
    role.system += (ends.last->system - ends.first->system) / seconds;
    role.switches += (ends.last->switches - ends.first->switches) / seconds;
    role.faults += (ends.last->faults - ends.first->faults) / seconds;
  }
  const double counted = run.countedAt - run.trainingFrom;
  for (const Counters& counters : run.counters) {
    const auto role = roles.find(counters.role);
    if (role == roles.end() || counted <= 0) continue;
    for (const auto& [name, value] : counters.values) {
      const bool moved = name.starts_with("colla_sent_bytes_total") ||
                         name.starts_with("colla_received_bytes_total");
      if (!moved) continue;
      (name.ends_with("{shm}") ? role->second.shared : role->second.network) += value / counted;
    }
    role->second.shared += counters.sumOf("colla_exchange_bytes_total") / counted;
  }
  return roles;
}

Json phasesOf(const RunResult& run) {
  double steps = 0;
  double whole = 0;
  Json phases = Json::object();
  const auto add = [&](const char* name, double seconds) {
    phases[name] = phases.value(name, 0.0) + seconds;
  };
  for (const Counters& counters : run.counters) {
    if (counters.role != "worker" || counters.of("colla_steps_total") <= 0) continue;
    steps += counters.of("colla_steps_total");
    whole += counters.of("colla_step_seconds_sum");
    add("forward", counters.of("colla_compute_seconds_total{forward}"));
    add("backward", counters.of("colla_compute_seconds_total{backward}"));
    add("update", counters.of("colla_compute_seconds_total{update}"));
    add("exposed", counters.of("colla_exchange_seconds_total{exposed}"));
    add("data", counters.of("colla_loader_wait_seconds_total"));
    add("hidden", counters.of("colla_exchange_seconds_total{hidden}"));
    add("saving", counters.of("colla_save_seconds_sum"));
  }
  if (steps <= 0) return Json::object();
  for (auto& [name, seconds] : phases.items()) seconds = seconds.get<double>() / steps;
  phases["step"] = whole / steps;
  return phases;
}

std::string runsTable(const Study& study) {
  std::string text =
      "variant,repeat,seed,status,samples_per_s,median_seconds_per_step,final_loss,final_accuracy,"
      "cores,peak_worker_bytes,peak_server_bytes,seconds,command,error\n";
  const auto out = std::back_inserter(text);
  for (const RunResult& run : study.runs) {
    const bool curve = run.done() && !run.curves.empty();
    const auto ends = curve ? losses(run.curves.front()) : std::vector<LossPoint>();
    double accuracy = -1;
    if (curve) {
      for (const CurvePoint& point : run.curves.front().points) {
        if (point.evaluated) accuracy = point.testAccuracy;
      }
    }
    fmt::format_to(out, "{},{},{},{},{},{},{},{},{},{},{},{:.3f},{},{}\n", run.variant, run.repeat,
                   run.seed, run.status, numberOrNothing(run.done(), samplesPerSecond(run)),
                   numberOrNothing(curve, curve ? medianSecondsPerStep(run.curves.front()) : 0),
                   numberOrNothing(!ends.empty(), ends.empty() ? 0 : ends.back().loss),
                   numberOrNothing(accuracy >= 0, accuracy),
                   numberOrNothing(run.done(), coresInUse(run)),
                   numberOrNothing(run.done(), peakMemory(run, "worker")),
                   numberOrNothing(run.done(), peakMemory(run, "ps")), run.seconds,
                   fieldOf(run.command), fieldOf(run.error));
  }
  return text;
}

std::string stepsTable(const Study& study) {
  std::string text = "variant,repeat,copy,step,training_seconds,loss,test_loss,test_accuracy\n";
  const auto out = std::back_inserter(text);
  for (const RunResult& run : study.runs) {
    for (std::size_t copy = 0; copy < run.curves.size(); ++copy) {
      const Curve& curve = run.curves[copy];
      const std::vector<double> seconds = trainingSeconds(curve);
      for (std::size_t i = 0; i < curve.points.size(); ++i) {
        const CurvePoint& point = curve.points[i];
        fmt::format_to(
            out, "{},{},{},{},{:.6f},{:.9g},{},{}\n", run.variant, run.repeat, copy, point.step,
            seconds[i], point.loss, numberOrNothing(point.evaluated, point.testLoss),
            numberOrNothing(point.evaluated && point.testAccuracy >= 0, point.testAccuracy));
      }
    }
  }
  return text;
}

std::string utilisationTable(const Study& study) {
  std::string text =
      "variant,repeat,host,role,rank,seconds,user_seconds,system_seconds,resident_bytes,"
      "proportional_bytes,context_switches,page_faults\n";
  const auto out = std::back_inserter(text);
  for (const RunResult& run : study.runs) {
    for (const UseSample& use : run.uses) {
      fmt::format_to(out, "{},{},{},{},{},{:.3f},{:.2f},{:.2f},{:.0f},{:.0f},{:.0f},{:.0f}\n",
                     run.variant, run.repeat, fieldOf(study.machine.host), use.role, use.rank,
                     use.seconds, use.user, use.system, use.resident, use.proportional,
                     use.switches, use.faults);
    }
  }
  return text;
}

std::string equalityTable(const Study& study) {
  std::string text = "step,a,b,equal,largest_difference\n";
  const auto out = std::back_inserter(text);
  for (const EqualityMatrix& matrix : study.equality) {
    for (std::size_t a = 0; a < matrix.variants.size(); ++a) {
      for (std::size_t b = a + 1; b < matrix.variants.size(); ++b) {
        const double difference = matrix.differences[a][b];
        fmt::format_to(out, "{},{},{},{},{}\n", matrix.step, matrix.variants[a], matrix.variants[b],
                       difference == 0 ? "yes" : "no",
                       numberOrNothing(difference >= 0, difference));
      }
    }
  }
  return text;
}

}  // namespace colla::study
