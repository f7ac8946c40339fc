// What workers and servers say to each other. Everything is encoded as base/bytes.h does it, but
// for values of parameters and gradients, which travel as they lie in memory.
//
// A worker asks, in order: an `Ask`, with `bytes` of payload that follow as a message or lie at
// `place` in the worker's memory. A server answers those asks that want an answer, in whatever
// order they can be answered: an `Answer`, with its payload the same way. The first server gives
// the others orders (ps/order.h); they report to it who has arrived.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "colla/status.h"
#include "ps/policy.h"
#include "ps/stop.h"
#include "transport/shared_memory.h"
#include "transport/transport.h"

namespace colla::ps {

enum class Topic : std::uint8_t {
  kDeclare = 1,  // payload: Declaration. Answered.
  kAttach,       // payload: Places of the area and of each partial sum's. Answered.
  kFill,         // number: block, `slot`; payload: its bytes. Worker 0 alone.
  kFillRows,     // number: partition, `slot`, first: row of it; payload: rows.
  kStart,        // number: StartFrom, step: updates made before; payload: steps of each entry.
                 // Worker 0 alone.
  kBegin,        // Answered with the parameters once worker 0 has said kStart.
  kOthers,       // Answered with the parameters once every other worker has gone.
  kPush,         // number: block, `step`. The block's partial sums follow, or lie in the areas.
  kPushRows,     // number: entry, `step`; payload: RowsWriter's.
  kFinish,       // `step`; payload: Finish. Answered with the parameters.
  kPullRows,     // number: entry, count: of rows; payload: their numbers. Answered with their
                 // values, which go behind the numbers where these lie in the worker's memory.
  kSnapshot,     // `step`: one of this step will do, if the servers have it. Answered with the step
                 // that it is of.
  kFetch,        // number: block, `slot`, `step` of the snapshot. Answered with its bytes in the
                 // snapshot.
  kFetchRows,    // number: partition, `slot`, `first`, count: rows of it. The same.
  kFetchSteps,   // Answered with the steps of each entry in the snapshot.
  kStatistics,   // Answered with Statistics.
  kLeave,        // number: Farewell. The worker has finished.
  // Between servers.
  kArrived,  // number: worker, `step`.
  kSquares,  // payload: Squares, of what the last order summed.
  kOrder,    // payload: Order.
};
// Where the training starts from: what worker 0 has filled in, or what the servers have kept from
// the epoch before.
enum StartFrom : std::int32_t { kFilled = 0, kGoOn = 1 };
// Whether the worker will be back: never, with a declaration of something else, or for the next
// epoch of the same training.
enum Farewell : std::int32_t { kForGood = 0, kForSomethingElse = 1, kUntilNextEpoch = 2 };

struct Ask {
  Topic topic = Topic::kLeave;
  std::int32_t number = 0;
  std::int32_t slot = -1;
  std::uint32_t count = 0;
  std::int64_t step = 0;
  std::int64_t first = 0;
  std::uint64_t bytes = 0;
  transport::Place place = {};
};
inline constexpr std::size_t kAskBytes = 49;
std::vector<std::byte> encode(const Ask& ask);
// Of kAskBytes; what it says has still to be checked.
Ask decodeAsk(std::span<const std::byte> bytes);

struct Answer {
  StatusCode code = StatusCode::kOk;
  Stop stop = Stop::kNo;     // The strongest of all workers' reasons.
  bool dropped = false;      // The gradients that it answers were.
  std::int64_t step = 0;     // Updates made.
  std::int64_t late = 0;     // How old the gradients were when they were taken.
  std::int64_t behind = 0;   // Steps that the slowest worker was behind this one.
  double scale = 1;          // What clipping multiplied the last update's gradients by.
  std::int64_t samples = 0;  // Of all gradients taken so far.
  std::uint64_t bytes = 0;   // Of the payload, or of the text of an error.
};
inline constexpr std::size_t kAnswerBytes = 51;
std::vector<std::byte> encode(const Answer& answer);
Answer decodeAnswer(std::span<const std::byte> bytes);

// Messages of one ask and its answer.
enum Step : std::uint32_t { kAskStep = 0, kPayloadStep = 1, kAnswerStep = 1 << 20, kResultStep };
// Payloads that are one message per block or partial sum come behind these.

// Of a worker: its steps, and (worker 0) checkpoints beside them. Between servers, and those after
// it. Between the workers of a host, in its own transport.
enum ChannelNumber : std::uint32_t {
  kWorkerChannel = 0,
  kSaverChannel = 1,
  kServerChannel = 2,
  kNeighbourChannel = 1 << 20
};

// The most that a payload in a message may have: what a worker could possibly need.
inline constexpr std::uint64_t kMostPayload = std::uint64_t{1} << 31;

transport::Envelope envelopeOf(std::uint32_t channel, std::uint32_t sequence, std::uint32_t step);

// A worker's last word of a step.
struct Finish {
  double share = 1;  // Of the global batch's samples.
  std::int64_t samples = 0;
  double factor = 1;  // Of the learning rate: the schedule's.
  // The same, of plateaus. It only falls, and the lowest that any worker has sent counts: under
  // policies that do not wait, one worker alone evaluates.
  double plateau = 1;
  // Worker 0: the servers take a snapshot as soon as they have made so many updates; -1: they
  // don't.
  std::int64_t snapshotAt = -1;
  bool empty = false;
  Stop stop = Stop::kNo;
  std::vector<std::uint8_t> present = {};  // By entry: it brought a value that counts.
  // Sums of squares of gradients that the servers don't have, by the parameters' order: hybrid.
  std::vector<std::pair<std::int32_t, double>> squares = {};
};
std::vector<std::byte> encode(const Finish& finish);
Result<Finish> decodeFinish(std::span<const std::byte> bytes, std::size_t entries);

// What became of the gradients, for people.
struct Statistics {
  std::int64_t taken = 0;
  std::int64_t dropped = 0;
  std::int64_t samples = 0;  // Of those that were taken.
  Staleness staleness;
};
std::vector<std::byte> encode(const Statistics& statistics);
Result<Statistics> decodeStatistics(std::span<const std::byte> bytes);

}  // namespace colla::ps
