// PMIx through libpmix. Its calls have no time limit of their own, so those that wait for others
// are started and their callbacks waited for.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/loaded_library.h"
#include "base/thread_annotations.h"
#include "job/process_manager.h"

namespace colla::job {
namespace {

// From pmix_common.h: the layout and the numbers of libpmix.so.2, which is versions 2 to 6.
struct PmixProcess {
  std::array<char, 256> nameSpace{};
  std::uint32_t rank = 0;
};
struct PmixValue {
  std::uint16_t type = 0;
  union {
    char* text;
    bool flag;
    std::uint64_t room[3];
  };
};
struct PmixInfo {
  std::array<char, 512> key{};
  std::uint32_t flags = 0;
  PmixValue value;
};
static_assert(sizeof(PmixProcess) == 260 && sizeof(PmixValue) == 32 && sizeof(PmixInfo) == 552);
constexpr int kPmixSuccess = 0;
constexpr std::uint8_t kPmixGlobal = 3;
constexpr std::uint16_t kPmixBool = 1;
constexpr std::uint16_t kPmixString = 3;
constexpr std::string_view kPmixCollect = "pmix.collect";

using PmixDone = void (*)(int status, void* data);
using PmixFound = void (*)(int status, PmixValue* value, void* data);

struct LibPmix {
  int (*init)(PmixProcess*, void* infos, std::size_t count) = nullptr;
  int (*finalize)(const void* infos, std::size_t count) = nullptr;
  int (*put)(std::uint8_t scope, const char* key, PmixValue*) = nullptr;
  int (*commit)() = nullptr;
  int (*fence)(const PmixProcess*, std::size_t processes, const void* infos, std::size_t count,
               PmixDone, void* data) = nullptr;
  int (*get)(const PmixProcess*, const char* key, const void* infos, std::size_t count, PmixFound,
             void* data) = nullptr;
  const char* (*error)(int status) = nullptr;
};

// What a callback brings, which may come after nobody waits for it any more.
struct Answer {
  Mutex mutex;
  Condition changed;
  bool there COLLA_GUARDED_BY(mutex) = false;
  int status COLLA_GUARDED_BY(mutex) = kPmixSuccess;
  std::string text COLLA_GUARDED_BY(mutex);
};
using Waiting = std::shared_ptr<Answer>;

void arrived(int status, std::string text, void* data) {
  const std::unique_ptr<Waiting> waiting(static_cast<Waiting*>(data));
  Answer& answer = **waiting;
  const MutexLock lock(answer.mutex);
  answer.there = true;
  answer.status = status;
  answer.text = std::move(text);
  answer.changed.notify_all();
}
void fenced(int status, void* data) { arrived(status, {}, data); }
void found(int status, PmixValue* value, void* data) {
  const bool text = status == kPmixSuccess && value != nullptr && value->type == kPmixString;
  arrived(status, text ? value->text : std::string(), data);
}

class Pmix final : public ProcessManager {
 public:
  Pmix(const LibPmix& library, const PmixProcess& self) : pmix_(library), self_(self) {
    // Open MPI's daemons find nothing of other hosts after a fence that did not bring it.
    std::ranges::copy(kPmixCollect, collect_.key.begin());
    collect_.value.type = kPmixBool;
    collect_.value.flag = true;
  }
  // Open MPI takes the end of a process that has not taken its leave for a crash.
  ~Pmix() override { pmix_.finalize(nullptr, 0); }

  Result<std::string> jobName(Deadline) override { return std::string(self_.nameSpace.data()); }

  Status put(const std::string& key, const std::string& value, Deadline) override {
    std::string copy = value;
    PmixValue given{.type = kPmixString, .text = copy.data()};
    int status = pmix_.put(kPmixGlobal, full(key).c_str(), &given);
    if (status == kPmixSuccess) status = pmix_.commit();
    return check(status, "does not take a value");
  }

  Result<std::string> get(int rank, const std::string& key, Deadline deadline) override {
    PmixProcess other = self_;
    other.rank = static_cast<std::uint32_t>(rank);
    const auto answer = std::make_shared<Answer>();
    auto mine = std::make_unique<Waiting>(answer);
    const int status = pmix_.get(&other, full(key).c_str(), nullptr, 0, found, mine.get());
    COLLA_TRY(check(status, fmt::format("has nothing from rank {}", rank)));
    [[maybe_unused]] const Waiting* const theirs = mine.release();
    COLLA_TRY(wait(*answer, fmt::format("has nothing from rank {}", rank), deadline));
    const MutexLock lock(answer->mutex);
    return answer->text;
  }

  Status fence(Deadline deadline) override {
    const auto answer = std::make_shared<Answer>();
    auto mine = std::make_unique<Waiting>(answer);
    constexpr std::string_view kWhat = "did not bring all processes together";
    COLLA_TRY(check(pmix_.fence(nullptr, 0, &collect_, 1, fenced, mine.get()), kWhat));
    [[maybe_unused]] const Waiting* const theirs = mine.release();
    return wait(*answer, kWhat, deadline);
  }

 private:
  static std::string full(const std::string& key) { return "colla." + key; }

  Status check(int status, std::string_view what) const {
    if (status == kPmixSuccess) return {};
    return {StatusCode::kPeerLost,
            fmt::format("mpirun's process manager {}: {}", what, pmix_.error(status))};
  }

  Status wait(Answer& answer, std::string_view what, Deadline deadline) const {
    const MutexLock lock(answer.mutex);
    while (!answer.there) {
      if (deadline.expired()) {
        return {StatusCode::kTimeout, fmt::format("mpirun's process manager {} in time", what)};
      }
      answer.changed.wait_until(answer.mutex, deadline.when());
    }
    return check(answer.status, what);
  }

  const LibPmix pmix_;
  const PmixProcess self_;
  PmixInfo collect_;
};

}  // namespace

Result<std::unique_ptr<ProcessManager>> openPmix() {
  const LoadedLibrary library("libpmix.so.2");
  LibPmix pmix;
  const bool all =
      library.find("PMIx_Init", pmix.init) && library.find("PMIx_Finalize", pmix.finalize) &&
      library.find("PMIx_Put", pmix.put) && library.find("PMIx_Commit", pmix.commit) &&
      library.find("PMIx_Fence_nb", pmix.fence) && library.find("PMIx_Get_nb", pmix.get) &&
      library.find("PMIx_Error_string", pmix.error);
  if (!all) return {StatusCode::kUnsupported, "there is no libpmix.so.2 here"};
  PmixProcess self;
  const int status = pmix.init(&self, nullptr, 0);
  if (status != kPmixSuccess) {
    return {StatusCode::kUnsupported, fmt::format("PMIx does not answer ({})", pmix.error(status))};
  }
  return std::unique_ptr<ProcessManager>(new Pmix(pmix, self));
}

}  // namespace colla::job
