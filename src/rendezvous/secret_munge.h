// Credentials of MUNGE: the service by which the nodes of a Slurm cluster know who sent what.
//
// A credential is a text that munged encrypts with a key of the cluster's, which only the munged of
// its nodes know. They open it for the user that it names, for some minutes, once on each node.
// libmunge is loaded at run time: Slurm's own programs have it, and other machines need none. A
// library, not the commands munge and unmunge, because it forks nothing inside of a program that
// has threads, and tells an error from a refusal.
//
// Thread safety: every function may be called from any thread.
#pragma once

#include <string>

#include "colla/status.h"

namespace colla::rendezvous {

// `text` as a credential that this user alone can open. kUnsupported if there is no MUNGE here.
Result<std::string> mungeSeal(const std::string& text);

// Whether a credential counts that this host has opened before, as one does that several of its
// processes were sent.
enum class Replay { kRefused, kAccepted };

// What is in a credential that this user made for this user. kRefused for any other.
Result<std::string> mungeOpen(const std::string& credential, Replay replay = Replay::kRefused);

}  // namespace colla::rendezvous
