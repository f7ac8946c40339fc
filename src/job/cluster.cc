#include "job/cluster.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <optional>
#include <span>
#include <string_view>

#include "base/crc32c.h"
#include "base/invalid.h"
#include "rendezvous/member_id.h"
#include "transport/net/address.h"

namespace colla::job {
namespace {

constexpr std::string_view kBlanks = " \t\n";

constexpr char kServers[] = "COLLA_PS_HOSTS";
constexpr char kWorkers[] = "COLLA_WORKER_HOSTS";
constexpr char kJobName[] = "COLLA_JOB_NAME";
constexpr char kTaskIndex[] = "COLLA_TASK_INDEX";

std::string_view listName(Role role) { return role == Role::kWorker ? "worker_hosts" : "ps_hosts"; }

std::optional<int> wholeNumber(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<Task> parseTask(std::string_view word) {
  const auto colon = word.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto port = wholeNumber(word.substr(colon + 1));
  std::string_view host = word.substr(0, colon);
  const bool six = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (six) host = host.substr(1, host.size() - 2);
  const bool letters = std::ranges::all_of(host, [&](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_' || (six && c == ':');
  });
  if (host.empty() || !letters || !port || *port < 1 || *port > 65535) return std::nullopt;
  Task task{std::string(host), *port};
  std::ranges::transform(task.host, task.host.begin(),
                         [](unsigned char c) { return std::tolower(c); });
  return task;
}

// Commas or blanks between; two commas with nothing between them are a slip that would shift the
// numbers of those after it.
Result<std::vector<Task>> parseList(std::string_view list, Role role) {
  std::vector<Task> tasks;
  if (list.find_first_not_of(kBlanks) == std::string_view::npos) return tasks;
  while (true) {
    const auto comma = list.find(',');
    std::string_view part = list.substr(0, comma);
    bool empty = true;
    for (auto begin = part.find_first_not_of(kBlanks); begin != std::string_view::npos;
         begin = part.find_first_not_of(kBlanks)) {
      part.remove_prefix(begin);
      const std::string_view word = part.substr(0, part.find_first_of(kBlanks));
      const auto task = parseTask(word);
      if (!task) return invalid("{} has \"{}\", but takes HOST:PORT", listName(role), word);
      tasks.push_back(*task);
      part.remove_prefix(word.size());
      empty = false;
    }
    if (empty) return invalid("{} has nothing where there should be HOST:PORT", listName(role));
    if (comma == std::string_view::npos) return tasks;
    list.remove_prefix(comma + 1);
  }
}

Status checkUnique(const Cluster& cluster) {
  std::map<std::string, Role> seen;
  for (const Role role : {Role::kServer, Role::kWorker}) {
    for (const Task& task : cluster.tasks(role)) {
      const auto [first, added] = seen.emplace(task.text(), role);
      if (added) continue;
      if (first->second == role) return invalid("{} names {} twice", listName(role), task.text());
      return invalid("{} is in ps_hosts and in worker_hosts", task.text());
    }
  }
  return {};
}

// Short, and the same in every process with these lists.
std::string idOf(const Cluster& cluster) {
  std::string text;
  for (const Role role : {Role::kServer, Role::kWorker}) {
    for (const Task& task : cluster.tasks(role)) text += task.text() + ",";
    text += ";";
  }
  return fmt::format("lists-{}-{}-{:08x}", cluster.workers.size(), cluster.servers.size(),
                     crc32c(std::as_bytes(std::span(text))));
}

// Fills in where this process listens and where the store is, in a job that spans hosts.
Status placeBetweenHosts(const Cluster& cluster, const ThisHost& here, Place& place) {
  std::vector<Task> all = cluster.workers;
  all.insert(all.end(), cluster.servers.begin(), cluster.servers.end());
  for (const Task& task : all) {
    if (!isLoopback(task.host)) continue;
    return invalid(
        "{} is another host wherever it is read: in a job of several hosts, name each as the "
        "others "
        "know it",
        task.text());
  }
  const auto other =
      std::ranges::find_if(all, [&](const Task& task) { return !here.is(task.host); });
  COLLA_TRY_ASSIGN(const std::string address, here.address(cluster.self().host, other->text()));
  const Task& last = cluster.last();
  place.host = cluster.self().host;
  place.store = here.is(last.host) ? transport::net::withPort(address, last.port) : last.text();
  if (!place.servesStore) place.address = transport::net::withPort(address, cluster.self().port);
  return {};
}

}  // namespace

ClusterWords readWords(const Environment& environment) {
  const auto text = [&](const char* name) {
    const char* const value = environment(name);
    return std::string(value == nullptr ? "" : value);
  };
  return {text(kServers), text(kWorkers), text(kJobName), text(kTaskIndex)};
}

std::vector<std::pair<std::string, std::string>> toVariables(const ClusterWords& words) {
  return {{kServers, words.servers},
          {kWorkers, words.workers},
          {kJobName, words.jobName},
          {kTaskIndex, words.taskIndex}};
}

std::string Task::text() const { return transport::net::withPort(host, port); }

bool Cluster::selfIsLast() const {
  const Role lastRole = servers.empty() ? Role::kWorker : Role::kServer;
  return role == lastRole && index + 1 == static_cast<int>(tasks(role).size());
}

Result<Cluster> parseCluster(const ClusterWords& words) {
  Cluster cluster;
  COLLA_TRY_ASSIGN(cluster.servers, parseList(words.servers, Role::kServer));
  COLLA_TRY_ASSIGN(cluster.workers, parseList(words.workers, Role::kWorker));
  if (cluster.workers.empty()) {
    return invalid("worker_hosts is not given: every process needs the lists of all");
  }
  COLLA_TRY(checkUnique(cluster));

  if (words.jobName == toString(Role::kServer)) {
    cluster.role = Role::kServer;
  } else if (words.jobName.empty() && !cluster.servers.empty()) {
    return invalid("job_name is not given: is this process a ps or a worker?");
  } else if (!words.jobName.empty() && words.jobName != toString(Role::kWorker)) {
    return invalid("job_name is \"{}\", but must be ps or worker", words.jobName);
  }
  const auto& tasks = cluster.tasks(cluster.role);
  if (tasks.empty()) return invalid("job_name is ps, but ps_hosts names none");
  if (words.taskIndex.empty() && tasks.size() == 1) return cluster;
  if (words.taskIndex.empty()) {
    return invalid("task_index is not given: {} names {} of them", listName(cluster.role),
                   tasks.size());
  }
  const auto index = wholeNumber(words.taskIndex);
  if (!index || *index < 0 || *index >= static_cast<int>(tasks.size())) {
    return invalid("task_index is \"{}\", but must be from 0 to {}: {} names {}", words.taskIndex,
                   tasks.size() - 1, listName(cluster.role), tasks.size());
  }
  cluster.index = *index;
  return cluster;
}

Result<Place> placeIn(const Cluster& cluster, const ThisHost& here, Place place,
                      const std::string& secretFile) {
  // Names may have to be looked up: each once.
  std::map<std::string, bool> known;
  const ThisHost remembered{.is =
                                [&](const std::string& host) {
                                  const auto it = known.find(host);
                                  if (it != known.end()) return it->second;
                                  return known[host] = here.is(host);
                                },
                            .address = here.address};
  const auto isHere = [&](const Task& task) { return remembered.is(task.host); };
  place.launcher = kLists;
  place.role = cluster.role;
  place.rank = cluster.index;
  place.size = static_cast<int>(cluster.workers.size());
  place.servers = static_cast<int>(cluster.servers.size());
  if (place.jobId.empty()) place.jobId = idOf(cluster);
  if (!isHere(cluster.self())) {
    return invalid(
        "{} {} belongs to {}, but this is host {}: start it there, or give this process the "
        "task_index of one that belongs here",
        toString(cluster.role), cluster.index, cluster.self().text(), place.host);
  }
  const auto& peers = cluster.tasks(cluster.role);
  place.localSize = static_cast<int>(std::ranges::count_if(peers, isHere));
  place.localRank =
      static_cast<int>(std::count_if(peers.begin(), peers.begin() + cluster.index, isHere));
  if (place.alone()) return place;

  for (const Role role : {Role::kWorker, Role::kServer}) {
    for (const Task& task : cluster.tasks(role)) place.tasks.push_back(task.text());
  }
  place.servesStore = cluster.selfIsLast();
  place.secretFile = secretFile;
  if (std::ranges::all_of(cluster.workers, isHere) &&
      std::ranges::all_of(cluster.servers, isHere)) {
    place.store = localStore(place.jobId);
    return place;
  }
  if (secretFile.empty()) {
    return invalid("this job spans hosts and has no secret: {}", kSecretHint);
  }
  COLLA_TRY(placeBetweenHosts(cluster, remembered, place));
  return place;
}

Status addressTaken(const Place& place, const Status& listening) {
  return {StatusCode::kRefused,
          fmt::format("there is a process for {} already, or another program has its address ({}); "
                      "start each task once",
                      rendezvous::toString({place.role, place.rank}), listening.message())};
}

}  // namespace colla::job
