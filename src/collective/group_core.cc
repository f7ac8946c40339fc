#include "collective/group_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "base/crc32c.h"
#include "base/log.h"
#include "collective/algorithms.h"
#include "collective/on_levels.h"
#include "transport/spin.h"

namespace colla {

transport::Transport* Routes::between(std::span<const int> members) const {
  const bool oneHost = std::ranges::all_of(
      members, [&](int member) { return hosts[member] == hosts[members.front()]; });
  return oneHost && host != nullptr ? host : wire;
}

Topology Routes::topologyOf(std::span<const int> members) const {
  std::vector<std::string> where;
  for (const int member : members) where.push_back(hosts[member]);
  return Topology(where, sharesMemory);
}

GroupCore::GroupCore(Options options)
    : options_(std::move(options)),
      tree_(collective::SumTree::ofRanks(size())),
      whole_{.rank = options_.rank,
             .members = options_.members,
             .names = options_.names,
             .transport = options_.transport} {}

GroupCore::Turn GroupCore::Turn::inside() const {
  collective::Levels& levels = *group.levels();
  return {group, levels.inside(), levels.nextMeeting(), call, deadline, ownLimit};
}

GroupCore::Turn GroupCore::Turn::across(int lane, std::uint32_t messageRound) const {
  return {group,       group.levels()->across(lane), sequence, call, deadline, ownLimit, {},
          messageRound};
}

Result<std::unique_ptr<GroupCore>> GroupCore::create(Options options, Deadline deadline) {
  if (options.ids == nullptr) options.ids = std::make_shared<GroupIds>();
  if (options.shelf == nullptr) options.shelf = std::make_shared<collective::MemoryShelf>();
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
  Turn turn{*this, whole_, 0, call, deadline, /*ownLimit=*/true};
  if (options_.transport->sharedMemory() != nullptr) {
    return openBoard(turn, [&](auto board) {
      board_ = std::move(board);
      whole_.board = board_.get();
    });
  }
  COLLA_TRY(collective::allgatherMessages(turn, {}, 0));
  if (options_.routes == nullptr || !options_.routes->sharesMemory) return {};
  const Topology topology = options_.routes->topologyOf(options_.members);
  if (topology.hosts() == 1 || topology.hosts() == size()) return {};
  levels_ = std::make_unique<collective::Levels>(whole_, topology, options_.routes->host);
  if (levels_->inside().size() == 1) return {};
  return openBoard({*this, levels_->inside(), 0, call, deadline, /*ownLimit=*/true},
                   [&](auto board) { levels_->setBoard(std::move(board)); });
}

Status GroupCore::openBoard(Turn turn,
                            const std::function<void(std::unique_ptr<collective::Board>)>& keep) {
  const collective::Crew& crew = turn.crew;
  COLLA_TRY_ASSIGN(auto made,
                   collective::Board::create(*crew.transport->sharedMemory(), options_.shelf,
                                             crew.members, crew.rank, crew.names));
  collective::Board& board = *made;
  keep(std::move(made));
  std::vector<transport::Place> places(crew.members.size());
  places[crew.rank] = board.place();
  COLLA_TRY(collective::allgatherDirect(turn, std::as_writable_bytes(std::span(places)),
                                        sizeof(transport::Place)));
  COLLA_TRY(board.open(places, turn.call, turn.deadline));
  if (levels_ == nullptr) return {};
  // A late rank of this host may itself wait for one of another host, and will say so; meanwhile
  // that one's neighbours shall not blame this rank.
  board.setOutside({.news = [this] { return options_.transport->aborted(options_.id); },
                    .tellLate = [this](const Status& late) { tellMembers(late); }});
  return {};
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
  breakBoards(why);
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
  constexpr std::string_view kSetting = " (collective_timeout)";
  if (status.code() == StatusCode::kTimeout && !turn.ownLimit &&
      !status.message().ends_with(kSetting)) {
    status = {status.code(), std::string(status.message()).append(kSetting), status.peer()};
  }
  if (!status.ok()) {
    breakBoards(status);
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
  // While its boards are being made, ranks of a host wait for messages of its own transport.
  if (levels_ == nullptr || levels_->inside().transport == nullptr) return;
  levels_->inside().transport->abort(options_.id, why, levels_->inside().members);
}

void GroupCore::breakBoards(const Status& why) {
  if (board_ != nullptr) board_->breakUp(why);
  if (levels_ != nullptr && levels_->board() != nullptr) levels_->board()->breakUp(why);
}

// A meeting of those whose arguments were refused. Who goes on with a real call finds out that
// they do not, and so do they.
Status GroupCore::meetRefused(Turn& turn) {
  if (levels_ != nullptr) return collective::barrierLevels(turn);
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
