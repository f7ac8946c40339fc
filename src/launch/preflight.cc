#include "launch/preflight.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/version.h"
#include "transport/net/address.h"

namespace colla::launch {
namespace {

std::string torchOf(const HostFacts& facts, TorchUse use) {
  return use == TorchUse::kOwn ? facts.torch : facts.pythonTorch;
}

// Which of the hosts differs from the first one in `value`.
template <typename Value>
void compare(const std::vector<std::string>& names, const std::vector<HostFacts>& facts,
             const Value& value, const auto& text, std::vector<Complaint>& complaints) {
  for (std::size_t i = 1; i < facts.size(); ++i) {
    if (value(facts[i]) == value(facts[0])) continue;
    complaints.push_back({names[i], text(value(facts[i]), names[0], value(facts[0]))});
  }
}

}  // namespace

std::vector<Complaint> compareHosts(const std::vector<std::string>& names,
                                    const std::vector<HostFacts>& facts, TorchUse torch) {
  std::vector<Complaint> complaints;
  std::map<std::string, std::string> keys;
  for (std::size_t i = 0; i < facts.size(); ++i) {
    const auto [it, added] = keys.emplace(facts[i].key, names[i]);
    if (!added) {
      complaints.push_back({names[i], fmt::format("it is the same host as {}: name it once, with "
                                                  "all of its slots",
                                                  it->second)});
    }
  }
  compare(
      names, facts, [](const HostFacts& each) { return each.cpu; },
      [](const std::string& own, const std::string& first, const std::string& others) {
        return fmt::format(
            "its CPU has \"{}\", that of host {} \"{}\": bits would depend on the "
            "host, so take hosts of one kind",
            own, first, others);
      },
      complaints);
  if (torch == TorchUse::kNone) return complaints;
  compare(
      names, facts, [&](const HostFacts& each) { return torchOf(each, torch); },
      [](const std::string& own, const std::string& first, const std::string& others) {
        const auto named = [](const std::string& version) {
          return version.empty() ? std::string("no torch") : "torch " + version;
        };
        return fmt::format("it has {}, but host {} has {}: install the same one", named(own), first,
                           named(others));
      },
      complaints);
  return complaints;
}

std::string toText(const std::vector<Complaint>& complaints, std::string_view speaker) {
  std::string text;
  for (const auto& [host, what] : complaints) {
    text += fmt::format("{}: host {}: {}\n", speaker, host, what);
  }
  return text;
}

Status Preflight::await(const std::optional<Fields> Hosts::Answers::*answer, std::string_view what,
                        bool alsoHere) {
  const auto waits = [&](std::size_t i) {
    return hosts_.answers(i).lost.empty() && !(hosts_.answers(i).*answer) &&
           (alsoHere || !hosts_.isHere(i));
  };
  for (;;) {
    bool waiting = false;
    for (std::size_t i = 0; i < hosts_.size(); ++i) waiting = waiting || waits(i);
    if (!waiting || deadline_.expired()) break;
    if (!hosts_.waitOnce(signals_, deadline_.when())) return {StatusCode::kCancelled, "a signal"};
  }
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    const Hosts::Answers& answers = hosts_.answers(i);
    if (!answers.lost.empty()) {
      complaints_.push_back({hosts_.name(i), answers.lost});
    } else if (answers.facts && answers.facts->version != version()) {
      complaints_.push_back({hosts_.name(i), fmt::format("it has Colla {}, but this is {}: install "
                                                         "the same version",
                                                         answers.facts->version, version())});
    } else if (!answers.facts && waits(i)) {
      complaints_.push_back({hosts_.name(i),
                             "it does not answer: is it up, and can it be reached "
                             "from here? --start-timeout gives it longer"});
    } else if (waits(i)) {
      complaints_.push_back({hosts_.name(i), fmt::format("it has not {} in time: is it busy, or is "
                                                         "one of its disks not reachable? "
                                                         "--start-timeout gives it longer",
                                                         what)});
    }
  }
  return {};
}

Status Preflight::check(const Fields& job, TorchUse torch) {
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    if (!hosts_.isHere(i)) hosts_.say(i, Say::kCheck, job);
  }
  // This host learns from the others which of its addresses leads to them.
  COLLA_TRY(await(&Hosts::Answers::checked, "answered", /*alsoHere=*/false));
  if (!complaints_.empty()) return {};
  Fields jobHere = job;
  bool here = false;
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    here = here || hosts_.isHere(i);
    const std::string server = hosts_.isHere(i) ? "" : hosts_.answers(i).facts->server;
    if (!server.empty()) jobHere.add("towards", transport::net::withPort(server, 1));
  }
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    if (hosts_.isHere(i)) hosts_.say(i, Say::kCheck, jobHere);
  }
  if (here) COLLA_TRY(await(&Hosts::Answers::checked, "answered", /*alsoHere=*/true));
  if (!complaints_.empty()) return {};
  std::vector<std::string> names;
  std::vector<HostFacts> facts;
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    names.push_back(hosts_.name(i));
    facts.push_back(*hosts_.answers(i).facts);
    for (const std::string& wrong : hosts_.answers(i).checked->all("wrong")) {
      complaints_.push_back({hosts_.name(i), wrong});
    }
  }
  for (Complaint& complaint : compareHosts(names, facts, torch)) {
    complaints_.push_back(std::move(complaint));
  }
  return {};
}

Status Preflight::reach(const std::vector<std::string>& store) {
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    Fields others;
    others.add("", store[i]);
    for (std::size_t j = 0; j < hosts_.size(); ++j) {
      if (j != i) others.add(hosts_.name(j), (*hosts_.answers(j).checked)["address"]);
    }
    hosts_.say(i, Say::kReach, others);
  }
  COLLA_TRY(await(&Hosts::Answers::reached, "tried to reach the others", /*alsoHere=*/true));
  if (!complaints_.empty()) return {};
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    for (const auto& entry : hosts_.answers(i).reached->entries()) {
      const std::string& name =
          entry.first;  // Not a structured binding, which clang does not capture.
      const std::string& error = entry.second;
      if (error.empty()) continue;
      const std::string whom =
          name.empty() ? "this host, where the job's store is," : "host " + name;
      const std::string& address = name.empty() ? store[i] : [&]() -> const std::string& {
        for (std::size_t j = 0; j < hosts_.size(); ++j) {
          if (hosts_.name(j) == name) return (*hosts_.answers(j).checked)["address"];
        }
        return store[i];
      }();
      complaints_.push_back(
          {hosts_.name(i),
           fmt::format("it can't reach {} at {} ({}): open the ports between them, or choose a "
                       "network that all of them share with --network-interfaces",
                       whom, address, error)});
    }
  }
  return {};
}

}  // namespace colla::launch
