// All metrics that Colla has, in one table. A new one is an entry here and a row in
// docs/metrics.md; a test compares the two.
//
// Every metric also gets the labels `role`, `rank` and `host` of the process that counted it, when
// it is served.
#pragma once

#include <array>
#include <string_view>

#include "base/metrics.h"

namespace colla::metrics {

inline constexpr std::array kFamilies = {
    Family{"colla_up", Kind::kGauge, Unit::kCount, "",
           "1 if the process answered when it was asked for its metrics, else 0."},

    // train
    Family{"colla_steps_total", Kind::kCounter, Unit::kCount, "",
           "Training steps that this process has finished. In a Python program, calls of its "
           "distributed optimizer's `step()`."},
    Family{"colla_samples_total", Kind::kCounter, Unit::kCount, "",
           "Samples that this process has computed gradients of."},
    Family{"colla_step_seconds", Kind::kHistogram, Unit::kSeconds, "",
           "Time of a training step, from its data to its update."},
    Family{"colla_compute_seconds_total", Kind::kCounter, Unit::kSeconds, "phase",
           "Time that this worker computed, by phase: forward, backward, and the update where "
           "workers make it themselves."},
    Family{"colla_exchange_bytes_total", Kind::kCounter, Unit::kBytes, "phase",
           "Bytes of gradients that this process exchanged with others, by the phases of "
           "colla_exchange_seconds_total."},
    Family{"colla_exchange_seconds_total", Kind::kCounter, Unit::kSeconds, "phase",
           "Time of gradient exchange: hidden while the backward pass ran, or exposed, because the "
           "step waited for it afterwards."},
    Family{"colla_epoch_replace_seconds", Kind::kHistogram, Unit::kSeconds, "",
           "Time that this worker's training stood still between two steps because the job's "
           "workers changed."},

    // transport
    Family{
        "colla_sent_bytes_total", Kind::kCounter, Unit::kBytes, "transport peer_host",
        "Bytes of messages sent, without headers and encryption. Memory that processes of one host "
        "share is not sent."},
    Family{"colla_received_bytes_total", Kind::kCounter, Unit::kBytes, "transport peer_host",
           "Bytes of messages received, without headers and encryption."},
    Family{"colla_sent_messages_total", Kind::kCounter, Unit::kCount, "transport peer_host",
           "Messages sent."},
    Family{"colla_received_messages_total", Kind::kCounter, Unit::kCount, "transport peer_host",
           "Messages received."},
    Family{"colla_wait_seconds_total", Kind::kCounter, Unit::kSeconds, "peer",
           "Time that this process waited for a message or a step of a peer. A wait for all of "
           "several counts for the last one to come, a wait for any of them for the first. In "
           "shared memory, up to a microsecond of each wait is not counted."},

    // collective
    Family{"colla_collective_seconds", Kind::kHistogram, Unit::kSeconds, "operation",
           "Time of a collective operation, from its call to its return. Of calls with up to 8 "
           "KiB, one in 17 is timed and stands for those that follow it."},
    Family{
        "colla_collective_bytes_total", Kind::kCounter, Unit::kBytes, "operation",
        "Bytes of collective operations: the elements that each rank brings, times their size. Of "
        "allgatherv the elements of all ranks count, of alltoallv none."},
    Family{"colla_collective_failures_total", Kind::kCounter, Unit::kCount, "operation",
           "Collective operations that ended with an error."},

    // named
    Family{"colla_stalls_total", Kind::kCounter, Unit::kCount, "",
           "Reports of named operations that some ranks had not come to within stall_warning."},

    // job
    Family{"colla_connect_retries_total", Kind::kCounter, Unit::kCount, "",
           "Attempts to reach the job's store that failed and were made again."},
    Family{"colla_reconnects_total", Kind::kCounter, Unit::kCount, "",
           "Times that this process lost the store it had joined and joined its successor."},

    // ps
    Family{"colla_ps_pushes_total", Kind::kCounter, Unit::kCount, "",
           "Blocks and table parts that workers pushed to this server."},
    Family{"colla_ps_pulls_total", Kind::kCounter, Unit::kCount, "",
           "Times that this server handed parameters or rows to a worker."},
    Family{"colla_ps_folds_total", Kind::kCounter, Unit::kCount, "",
           "Updates that this server made of pushed gradients."},
    Family{"colla_ps_folded_bytes_total", Kind::kCounter, Unit::kBytes, "",
           "Bytes of gradients that went into the updates of this server."},
    Family{"colla_ps_dropped_total", Kind::kCounter, Unit::kCount, "",
           "Workers' steps whose gradients were dropped: they came too late."},
    Family{"colla_ps_staleness", Kind::kHistogram, Unit::kCount, "",
           "Updates that the parameters had seen between a worker's pull and its push."},
    Family{"colla_ps_pushed_rows_total", Kind::kCounter, Unit::kCount, "",
           "Table rows whose gradients workers pushed to this server."},
    Family{"colla_ps_pulled_rows_total", Kind::kCounter, Unit::kCount, "",
           "Table rows that workers pulled from this server."},
    Family{"colla_ps_workers", Kind::kGauge, Unit::kCount, "",
           "Workers that have not left this server."},

    // data
    Family{"colla_loader_batches_total", Kind::kCounter, Unit::kCount, "",
           "Slice-batches that the loader gave to training."},
    Family{"colla_loader_wait_seconds_total", Kind::kCounter, Unit::kSeconds, "",
           "Time that training waited for a batch that a prefetch thread was still reading."},

    // checkpoint
    Family{"colla_save_seconds", Kind::kHistogram, Unit::kSeconds, "",
           "Time to write a checkpoint, in the background."},
    Family{"colla_saved_bytes_total", Kind::kCounter, Unit::kBytes, "",
           "Bytes of tensors in the checkpoints that were written."},

};

// `name` must be in the table: otherwise the call does not compile.
consteval const Family& family(std::string_view name) {
  for (const Family& family : kFamilies) {
    if (family.name == name) return family;
  }
  throw "kFamilies has no metric of this name";
}

}  // namespace colla::metrics
