// `colla agent`: the part of `colla run` on one of several hosts. Not for people: `colla run`
// starts it there with ssh, or without it on its own host.
//
//   colla run ── ssh ── colla agent ── guardian ── worker 2, worker 3, … ── their children
//
// The agent says first what the host is (kFacts), then checks what the job needs there (kCheck),
// and whether it reaches the other hosts (kReach). After kStart it is to its guardian what `colla
// run` is on a single host: it passes orders on, and events and output back. Each side sends a beat
// every second. When the other side is gone or silent, the agent ends everything; if somebody kills
// the agent, its guardian does.
#pragma once

#include <chrono>

namespace colla::launch {

constexpr std::chrono::milliseconds kBeatEvery{1000};
// The agent's limit is later than the front's: whoever suspects a lost host first should be the one
// that can tell the user of it.
constexpr std::chrono::milliseconds kFrontSilence{7000};
constexpr std::chrono::milliseconds kHostSilence{5000};

// Over standard input and output. Returns the exit code.
int runAgent();

}  // namespace colla::launch
