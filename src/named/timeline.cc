#include "named/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

namespace colla::named {
namespace {

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', /*ensure_ascii=*/false,
                                   nlohmann::json::error_handler_t::replace);
}

std::string upper(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return std::toupper(c); });
  return result;
}

}  // namespace

Status Timeline::start(const std::string& path, bool markCycles) {
  COLLA_TRY(stop());
  const MutexLock lock(mutex_);
  file_.open(path, std::ios::trunc);
  if (!file_) {
    return {StatusCode::kIo, fmt::format("can't write the timeline to {}: is it a file in a "
                                         "directory that you may write to?",
                                         path)};
  }
  path_ = path;
  markCycles_ = markCycles;
  empty_ = true;
  since_ = std::chrono::steady_clock::now();
  const auto epoch = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  file_ << "[";
  write(fmt::format(R"({{"name":"process_name","ph":"M","pid":0,)"
                    R"("args":{{"name":"exchange","start_time_since_epoch_in_micros":{}}}}})",
                    epoch.count()));
  active_.store(true, std::memory_order_release);
  return {};
}

Status Timeline::stop() {
  const MutexLock lock(mutex_);
  if (!active()) return {};
  active_.store(false, std::memory_order_release);
  file_ << "\n]\n";
  file_.close();
  const bool good = static_cast<bool>(file_);
  file_.clear();
  tracks_.clear();
  negotiating_.clear();
  running_.clear();
  if (good) return {};
  return {StatusCode::kIo, fmt::format("the timeline {} is incomplete: is the disk full?", path_)};
}

void Timeline::announced(const Announcement& what, int rank) {
  if (!active()) return;
  const MutexLock lock(mutex_);
  if (!active()) return;
  const int track = trackOf(what);
  if (negotiating_.insert(what.key).second) {
    write(fmt::format(R"({{"ph":"B","name":"NEGOTIATE_{}","ts":{},"pid":{}}})",
                      upper(toString(what.kind)), now(), track));
  }
  write(fmt::format(R"({{"ph":"X","name":"{}","ts":{},"dur":0,"pid":{}}})", rank, now(), track));
}

void Timeline::decided(const Announcement& what) {
  if (!active()) return;
  const MutexLock lock(mutex_);
  if (!active() || negotiating_.erase(what.key) == 0) return;
  write(fmt::format(R"({{"ph":"E","ts":{},"pid":{}}})", now(), trackOf(what)));
}

void Timeline::began(const Announcement& what, std::size_t together) {
  if (!active()) return;
  const MutexLock lock(mutex_);
  if (!active()) return;
  running_.insert(what.key);
  write(fmt::format(
      R"({{"ph":"B","name":"{}","ts":{},"pid":{},"args":{{"dtype":"{}","shape":"{}","together":{}}}}})",
      upper(toString(what.kind)), now(), trackOf(what), toString(what.type), toText(what.shape),
      together));
}

void Timeline::ended(const Announcement& what) {
  if (!active()) return;
  const MutexLock lock(mutex_);
  if (!active() || running_.erase(what.key) == 0) return;
  write(fmt::format(R"({{"ph":"E","ts":{},"pid":{}}})", now(), trackOf(what)));
}

void Timeline::cycle() {
  if (!active()) return;
  const MutexLock lock(mutex_);
  if (!active() || !markCycles_) return;
  write(fmt::format(R"({{"ph":"i","name":"CYCLE_START","ts":{},"pid":0,"s":"g"}})", now()));
}

long Timeline::now() const {
  const auto passed = std::chrono::steady_clock::now() - since_;
  return std::chrono::duration_cast<std::chrono::microseconds>(passed).count();
}

int Timeline::trackOf(const Announcement& what) {
  const auto [it, added] = tracks_.try_emplace(what.key, static_cast<int>(tracks_.size()) + 1);
  if (added) {
    const std::string name = what.key.set <= kWorldSet
                                 ? what.key.name
                                 : fmt::format("{} (process set {})", what.key.name, what.key.set);
    write(fmt::format(R"({{"name":"process_name","ph":"M","pid":{},"args":{{"name":{}}}}})",
                      it->second, quoted(name)));
    write(fmt::format(
        R"({{"name":"process_sort_index","ph":"M","pid":{0},"args":{{"sort_index":{0}}}}})",
        it->second));
  }
  return it->second;
}

void Timeline::write(const std::string& event) {
  file_ << (empty_ ? "\n" : ",\n") << event;
  empty_ = false;
}

}  // namespace colla::named
