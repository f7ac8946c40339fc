// Rank 0's door for processes that do not have the job's secret yet: whoever connects gets a MUNGE
// credential, which only this user's processes can open.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "base/deadline.h"
#include "base/unique_fd.h"
#include "colla/status.h"
#include "transport/net/address.h"

namespace colla::job {

class CredentialDoor {
 public:
  // Gives out `text`, in a new credential for each who connects: a host's MUNGE opens each once.
  static Result<std::shared_ptr<CredentialDoor>> open(const transport::net::Address& address,
                                                      std::string text);
  ~CredentialDoor();
  CredentialDoor(const CredentialDoor&) = delete;
  CredentialDoor& operator=(const CredentialDoor&) = delete;

 private:
  CredentialDoor(UniqueFd listening, UniqueFd stop, std::string text);
  void serve();

  const UniqueFd listening_;
  const UniqueFd stop_;  // Readable: the thread has to end.
  const std::string text_;
  std::thread thread_;
};

// The credential that the door at `address` ("host:port") gives. Waits for one to open.
Result<std::string> fetchCredential(const std::string& address, Deadline deadline);

}  // namespace colla::job
