// Lists of hosts and tasks, as users and schedulers write them: TensorFlow's, Slurm's and
// horovodrun's. Lines of the input are its parts.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "job/cluster.h"
#include "job/slurm.h"
#include "launch/host_slots.h"

namespace {

void checkCluster(const std::vector<std::string>& lines) {
  using namespace colla::job;
  const ClusterWords words{lines[0], lines[1], lines[2], lines[3]};
  const auto cluster = parseCluster(words);
  if (!cluster.ok()) {
    if (cluster.status().message().empty()) std::abort();
    return;
  }
  const auto& tasks = cluster->tasks(cluster->role);
  if (cluster->index < 0 || cluster->index >= static_cast<int>(tasks.size())) std::abort();
  for (const auto& list : {cluster->workers, cluster->servers}) {
    for (const Task& task : list) {
      if (task.host.empty() || task.port < 1 || task.port > 65535) std::abort();
    }
  }
  // What was understood can be written, and means the same.
  std::string servers, workers;
  for (const Task& task : cluster->servers) servers += task.text() + ",";
  for (const Task& task : cluster->workers) workers += task.text() + " ";
  if (!servers.empty()) servers.pop_back();
  const auto again = parseCluster({servers, workers, lines[2], lines[3]});
  if (!again.ok() || again->workers != cluster->workers || again->servers != cluster->servers) {
    std::abort();
  }
  // The names are not looked up here.
  const ThisHost here{
      .is = [](const std::string& host) { return host.size() % 2 == 0; },
      .address = [](const std::string& host,
                    const std::string&) { return colla::Result<std::string>(host); }};
  static_cast<void>(placeIn(*cluster, here, {}, lines[0].size() % 2 == 0 ? "" : "secret"));
}

void checkSlots(const colla::Result<std::vector<colla::launch::HostSlots>>& hosts) {
  if (!hosts.ok()) return;
  for (const auto& host : *hosts) {
    if (host.name.empty() || host.slots < 1) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> lines(1);
  for (const char c : text) {
    if (c == '\n') {
      lines.emplace_back();
    } else {
      lines.back() += c;
    }
  }
  lines.resize(std::max<std::size_t>(lines.size(), 4));
  checkCluster(lines);

  for (const int count : colla::job::slurm::tasksPerNode(lines[0])) {
    if (count < 1) std::abort();
  }
  for (const auto& name : colla::job::slurm::nodeNames(lines[0])) {
    if (name.empty()) std::abort();
  }
  if (colla::job::slurm::firstNode(lines[0]).size() > lines[0].size()) std::abort();

  checkSlots(colla::launch::parseHostSlots(text));
  checkSlots(colla::launch::parseHostFile(text, "hosts"));
  return 0;
}
