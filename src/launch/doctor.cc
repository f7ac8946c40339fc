#include "launch/doctor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/text_table.h"
#include "job/environment.h"
#include "launch/hosts.h"
#include "launch/preflight.h"
#include "launch/run_parts.h"

namespace colla::launch {
namespace {

constexpr auto kPairLimit = std::chrono::seconds(10);

std::string bytes(std::uint64_t count) {
  if (count >= RLIM_INFINITY / 2) return "unlimited";
  if (count >= 1ULL << 30) return fmt::format("{:.1f} GiB", static_cast<double>(count) / (1 << 30));
  return fmt::format("{:.0f} MiB", static_cast<double>(count) / (1 << 20));
}

std::string orNone(const std::string& text) { return text.empty() ? "none" : text; }

double measuredNumber(const std::string& text) {
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// "eth0 (10.0.0.2)", for an address with its port.
std::string interfaceOf(const HostFacts& facts, const std::string& address) {
  for (const auto& [name, own] : facts.interfaces) {
    if (address.starts_with(own + ":") || address.starts_with("[" + own + "]")) {
      return fmt::format("{} ({})", name, own);
    }
  }
  return address;
}

class Doctor {
 public:
  Doctor(const RunOptions& options, Hosts& hosts, int signals)
      : options_(options), hosts_(hosts), signals_(signals) {}

  int run() {
    Preflight preflight(hosts_, signals_,
                        Deadline::after(options_.config.seconds("start_timeout")));
    Fields job;
    std::error_code error;
    job.add("folder", std::filesystem::current_path(error).string());
    job.add("interfaces",
            options_.interfaces.empty() ? options_.config.text("interface") : options_.interfaces);
    if (!preflight.check(job, TorchUse::kOwn).ok()) return kInterrupted;
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      if (!hosts_.answers(i).facts) continue;
      names_.push_back(hosts_.name(i));
      facts_.push_back(*hosts_.answers(i).facts);
    }
    if (!facts_.empty()) fmt::print("{}\n{}", hostTable(names_, facts_), choices(names_, facts_));
    printAddresses();
    const bool complete = facts_.size() == hosts_.size() && preflight.complaints().empty();
    if (complete && hosts_.size() > 1 && !measure()) return kInterrupted;
    std::fflush(stdout);
    fmt::print(stderr, "{}", toText(preflight.complaints(), options_.name));
    if (!preflight.complaints().empty()) return kExitFailure;
    fmt::print("\na job can run {}\n", hosts_.size() > 1 ? "on these hosts" : "here");
    return 0;
  }

 private:
  static constexpr int kInterrupted = 130;

  void printAddresses() {
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      const auto& [facts, checked, reached, measured, lost] = hosts_.answers(i);
      if (!facts || !checked || (*checked)["address"].empty() || hosts_.size() == 1) continue;
      fmt::print("host {} listens on {}: {}\n", hosts_.name(i),
                 interfaceOf(*facts, (*checked)["address"]),
                 (*checked)["interface"].empty() ? "it leads to this host; --network-interfaces "
                                                   "chooses a different one"
                                                 : "so says --network-interfaces");
    }
  }

  // One pair after the other, so that none disturbs the next.
  bool measure() {
    std::vector<TableRow> rows = {{"between", "and", "round trip", "bandwidth"}};
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      for (std::size_t j = i + 1; j < hosts_.size(); ++j) {
        hosts_.forgetMeasured(i);
        hosts_.say(j, Say::kServe, {});
        Fields target;
        target.add("address", (*hosts_.answers(j).checked)["address"]);
        hosts_.say(i, Say::kMeasure, target);
        const Deadline deadline = Deadline::after(kPairLimit);
        while (!hosts_.answers(i).measured && hosts_.answers(i).lost.empty() &&
               !deadline.expired()) {
          if (!hosts_.waitOnce(signals_, deadline.when())) return false;
        }
        rows.push_back(row(i, j));
      }
    }
    fmt::print("\n{}", aligned(rows, {0, 1}));
    return true;
  }

  TableRow row(std::size_t i, std::size_t j) const {
    TableRow row = {hosts_.name(i), hosts_.name(j)};
    const auto& measured = hosts_.answers(i).measured;
    const std::string wrong = !measured ? "no answer" : (*measured)["wrong"];
    if (!wrong.empty()) {
      row.insert(row.end(), {wrong, ""});
    } else {
      row.push_back(fmt::format("{:.0f} us", measuredNumber((*measured)["round trip"]) * 1e6));
      row.push_back(fmt::format("{:.2f} Gbit/s", measuredNumber((*measured)["bandwidth"]) * 8e-9));
    }
    return row;
  }

  const RunOptions& options_;
  Hosts& hosts_;
  int signals_;
  std::vector<std::string> names_;
  std::vector<HostFacts> facts_;
};

}  // namespace

std::string hostTable(const std::vector<std::string>& names, const std::vector<HostFacts>& facts) {
  std::vector<TableRow> rows = {{"host", "Colla", "cores", "memory", "shared memory", "open files",
                                 "locked memory", "RDMA", "torch", "torch of python3"}};
  for (std::size_t i = 0; i < facts.size(); ++i) {
    const HostFacts& each = facts[i];
    rows.push_back({names[i], each.version, std::to_string(each.cores), bytes(each.memory),
                    bytes(each.sharedMemory), std::to_string(each.openFiles),
                    bytes(each.lockedMemory), orNone(fmt::format("{}", fmt::join(each.rdma, " "))),
                    orNone(each.torch), orNone(each.pythonTorch)});
  }
  return aligned(rows, {0, 7, 8, 9});
}

std::string choices(const std::vector<std::string>& names, const std::vector<HostFacts>& facts) {
  std::string text =
      fmt::format("CPU: {}\ninside a host: shared memory (transport shm)\n", facts.front().cpu);
  if (facts.size() < 2) return text;
  for (std::size_t i = 0; i < facts.size(); ++i) {
    if (facts[i].fastWire.empty()) {
      return text + fmt::format(
                        "between hosts: TCP, encrypted with TLS (transport tcp): host {} has "
                        "{}, which ucx needs\n",
                        names[i],
                        facts[i].rdma.empty() ? "no RDMA device"
                                              : "no libucp0 that runs on its RDMA device");
    }
  }
  return text + fmt::format(
                    "between hosts: transport {}, because all have an RDMA device; it does "
                    "not encrypt\n",
                    facts.front().fastWire);
}

int runDoctor(const RunOptions& options) {
  fillStandardDescriptors();
  if (const Status wrong = checkSsh(options.ssh); !wrong.ok()) {
    return complain(options, wrong, kExitUsage);
  }
  std::vector<Hosts::Host> hosts;
  for (const HostSlots& each : options.hosts) {
    hosts.push_back(hostOf(each.name, options.allocation));
  }
  if (hosts.empty()) hosts.push_back({.name = job::hostName(), .here = true, .node = {}});
  const Inherited inherited = Inherited::current();
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const UniqueFd signals = takeSignals();
  auto connected = Hosts::connect(
      hosts, {.ssh = options.ssh, .colla = collaProgram(), .copies = {}, .connectSeconds = 10},
      inherited);
  if (!connected.ok()) return complain(options, connected.status(), kExitFailure);
  return Doctor(options, **connected, signals.get()).run();
}

}  // namespace colla::launch
