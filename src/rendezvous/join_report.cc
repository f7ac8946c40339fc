#include "rendezvous/join_report.h"

#include <fmt/format.h>

#include <vector>

namespace colla::rendezvous {

std::string missingMembers(const JoinState& state, std::size_t named) {
  std::string text;
  std::size_t count = 0;
  for (const auto& [role, size] : {std::pair(Role::kWorker, state.expected.workers),
                                   std::pair(Role::kServer, state.expected.servers)}) {
    for (int rank = 0; rank < size; ++rank) {
      const MemberId id{role, rank};
      if (state.present.contains(id) || ++count > named) continue;
      const auto place = state.places.find(id);
      text += fmt::format("{}{}{}{}", text.empty() ? "" : ", ", toString(id),
                          place == state.places.end() ? "" : " ",
                          place == state.places.end() ? "" : place->second);
    }
  }
  if (count > named) text += fmt::format(" and {} more", count - named);
  return text;
}

JoinNews joinNews(TimePoint now, const JoinState& state, const JoinReportOptions& options) {
  const TimePoint due =
      state.lastReport ? *state.lastReport + options.every : state.started + options.first;
  if (now < due) return {"", due};
  const bool spokenFor = !state.present.empty() && *state.present.begin() < state.self;
  if (spokenFor && !options.everybody) return {"", now + options.every};
  const std::string missing = missingMembers(state, options.named);
  if (missing.empty()) return {"", now + options.every};
  const auto waited = std::chrono::duration_cast<std::chrono::seconds>(now - state.started);
  return {fmt::format("waiting for {}, {} s", missing, waited.count()), now + options.every};
}

}  // namespace colla::rendezvous
