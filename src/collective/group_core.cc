#include "collective/group_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "base/crc32c.h"
#include "base/log.h"
#include "collective/algorithms.h"
#include "transport/spin.h"

namespace colla {

transport::Transport* Routes::between(std::span<const int> members) const {
  const bool oneHost = std::ranges::all_of(
      members, [&](int member) { return hosts[member] == hosts[members.front()]; });
  return oneHost && host != nullptr ? host : wire;
}

GroupCore::GroupCore(Options options)
    : options_(std::move(options)), tree_(collective::SumTree::ofRanks(size())) {}

Result<std::unique_ptr<GroupCore>> GroupCore::create(Options options, Deadline deadline) {
  if (options.ids == nullptr) options.ids = std::make_shared<GroupIds>();
  if (options.shelf == nullptr) options.shelf = std::make_shared<collective::BoardShelf>();
  // Silently: an abort with this number would break the other group.
  if (!options.ids->claim(options.id)) {
    return {StatusCode::kUnsupported,
            fmt::format("the group would have the number of another one that is in use ({:08x}): "
                        "give that one up first, or name the ranks in another order",
                        options.id)};
  }
  std::unique_ptr<GroupCore> core(new GroupCore(std::move(options)));
  if (core->size() == 1) return core;
  const Status status = core->connect(deadline);
  if (status.ok()) return core;
  return core->giveUp(status);
}

// Links every rank to the others (few), or to enough of them that news spreads (many): when the
// group breaks, everybody can be told. Who maps another's memory must have heard from it before,
// so those that share some are linked to all, however many they are.
Status GroupCore::connect(Deadline deadline) {
  const transport::Call call = collective::encode(
      {.operation = collective::Operation::kSubgroup, .count = static_cast<std::uint64_t>(size())});
  Turn turn{*this, 0, call, deadline, {}};
  transport::SharedMemory* const memory = options_.transport->sharedMemory();
  if (memory == nullptr) return collective::allgatherMessages(turn, {}, 0);
  COLLA_TRY_ASSIGN(board_, collective::Board::create(*memory, options_.shelf, options_.members,
                                                     options_.rank, options_.names));
  std::vector<transport::Place> places(options_.members.size());
  places[rank()] = board_->place();
  COLLA_TRY(collective::allgatherDirect(turn, std::as_writable_bytes(std::span(places)),
                                        sizeof(transport::Place)));
  return board_->open(places, call, deadline);
}

// By the coarse clock: to read the exact one would be a tenth of a small allreduce.
Deadline GroupCore::Options::deadlineFor(std::chrono::milliseconds limit) const {
  constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24);
  constexpr std::chrono::milliseconds kTick{10};  // The most that it is behind steady_clock.
  timespec coarse{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &coarse);
  const TimePoint now(std::chrono::seconds(coarse.tv_sec) +
                      std::chrono::nanoseconds(coarse.tv_nsec));
  return Deadline::at(now + kTick + std::min(limit.count() > 0 ? limit : timeout, kLongest));
}

GroupCore::~GroupCore() {
  close();
  options_.ids->release(options_.id);
}

void GroupCore::close() {
  {
    const MutexLock lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  if (progress_.joinable()) progress_.join();
}

void GroupCore::abort(const Status& why) {
  {
    const MutexLock lock(mutex_);
    if (!broken_.ok()) return;
    broken_ = why;
  }
  if (board_ != nullptr) board_->breakUp(why);
  tellMembers(why);
}

Status GroupCore::giveUp(const Status& why) {
  const Status first = options_.transport->aborted(options_.id);
  abort(first.ok() ? why : first);
  const MutexLock lock(mutex_);
  return broken_;
}

Status GroupCore::begin(Turn& turn) {
  Status late;
  {
    const MutexLock lock(mutex_);
    turn.began = metrics_.begin(turn.call);
    const bool nested = progress_.get_id() == std::this_thread::get_id();
    bool waits = !nested;
    while (waits && (busy_ || !queue_.empty())) {
      waits = changed_.wait_until(mutex_, turn.deadline.when()) == std::cv_status::no_timeout;
    }
    if (!broken_.ok()) {
      return {StatusCode::kGroupBroken, fmt::format("the group is broken: {}", toString(broken_)),
              broken_.peer()};
    }
    if (nested || (!busy_ && queue_.empty())) {
      busy_ = true;
      turn.sequence = ++sequence_;
      current_ = turn.call;
      return {};
    }
    late = {StatusCode::kTimeout,
            fmt::format("{} did not get its turn in time: {}. Wait for what is ahead of it first, "
                        "or give it more time",
                        collective::describe(turn.call), ahead())};
  }
  abort(late);
  return late;
}

std::string GroupCore::ahead() const {
  // A task that is under way stays in the queue.
  const std::size_t tasks = queue_.size();
  std::string text = current_ ? collective::describe(*current_) + " was still under way"
                              : "an asynchronous operation was still under way";
  if (tasks > 1) text += fmt::format(", and {} asynchronous ones waited before it", tasks - 1);
  return text;
}

Status GroupCore::end(const Turn& turn, Status status) {
  if (!status.ok()) {
    if (board_ != nullptr) board_->breakUp(status);
    tellMembers(status);
  }
  {
    const MutexLock lock(mutex_);
    metrics_.end(turn.call, turn.began, status.ok());
    if (progress_.get_id() != std::this_thread::get_id()) busy_ = false;
    current_.reset();
    if (!status.ok() && broken_.ok()) broken_ = status;
  }
  changed_.notify_all();
  return status;
}

void GroupCore::tellMembers(const Status& why) {
  if (options_.transport != nullptr) options_.transport->abort(options_.id, why, options_.members);
}

// A meeting of those whose arguments were refused. Who goes on with a real call finds out that
// they do not, and so do they.
Status GroupCore::meetRefused(Turn& turn) {
  if (board_ == nullptr) return collective::barrierMessages(turn);
  return board_->arrive(turn.sequence, turn.call, turn.deadline);
}

void GroupCore::enqueue(std::function<Status()> operation, std::function<void(Status)> done) {
  {
    const MutexLock lock(mutex_);
    queue_.push_back({std::move(operation), std::move(done)});
    if (!progress_.joinable()) {
      progress_ = std::thread([this] { serveQueueOnProgressThread(); });
    }
  }
  changed_.notify_all();
}

void GroupCore::serveQueueOnProgressThread() {
  const transport::BackgroundThread behindTheCaller;
  mutex_.lock();
  while (true) {
    while (!closing_ && (queue_.empty() || busy_)) changed_.wait(mutex_);
    if (queue_.empty()) break;  // Closing, and everything done.
    busy_ = true;
    Task task = std::move(queue_.front());
    mutex_.unlock();
    Status status = task.operation();
    task.operation = nullptr;  // Frees what it held before anybody is told.
    task.done(std::move(status));
    mutex_.lock();
    queue_.pop_front();
    busy_ = false;
    changed_.notify_all();
  }
  mutex_.unlock();
}

void GroupCore::warnOnce(const std::string& text) {
  const MutexLock lock(mutex_);
  if (rank() == 0 && warnings_.insert(text).second) log::warn("{}", text);
}

std::uint32_t GroupCore::nextMessage(bool outgoing, int peer, std::uint32_t tag) {
  const MutexLock lock(mutex_);
  return messages_[{outgoing, peer, tag}]++;
}

bool GroupCore::giveBackMessage(bool outgoing, int peer, std::uint32_t tag, std::uint32_t number) {
  const MutexLock lock(mutex_);
  std::uint32_t& next = messages_[{outgoing, peer, tag}];
  if (next != number + 1) return false;
  next = number;
  return true;
}

std::uint32_t GroupCore::nextSubgroup(const std::vector<int>& members) {
  const MutexLock lock(mutex_);
  // The same on every member, because each of them has asked for these members as often.
  const std::array<std::uint32_t, 2> seed = {options_.id, subgroups_[members]++};
  return crc32c(std::as_bytes(std::span(members)), crc32c(std::as_bytes(std::span(seed)))) &
         ~kMessageBit;
}

}  // namespace colla
