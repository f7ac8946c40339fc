// How the processes of a job on several hosts get a secret that is in no file: rank 0 makes one,
// and hands it out by what the launcher has.
//
// - In a Slurm allocation: MUNGE. Rank 0 gives everyone who connects to the place's store a
//   credential that only this user can open (rendezvous/secret_munge.h).
// - Under mpirun: its process manager carries a public key of every process to rank 0, and back the
//   secret, sealed for each of them (rendezvous/secret_seal.h, decision 0024).
//
// Where the store really is comes with the secret: rank 0 serves it at any free port.
#pragma once

#include <memory>

#include "base/config.h"
#include "base/deadline.h"
#include "colla/status.h"
#include "job/open_store.h"

namespace colla::job {

// Gives credentials to those who ask, until its end. Null where nobody has to.
class CredentialDoor;

// Completes `meeting`: its place has a secret, a job id and a store afterwards, and rank 0 the
// store's server. What comes back must live until the others have joined. Does nothing where the
// place says Handout::kNone; a process's second job gets what the first one got.
Result<std::shared_ptr<CredentialDoor>> handOut(const Config& config, Meeting& meeting,
                                                Deadline deadline);

}  // namespace colla::job
