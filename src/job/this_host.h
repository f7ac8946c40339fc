// Which of the hosts that a user named is this one.
#pragma once

#include <functional>
#include <string>

#include "colla/status.h"

namespace colla::job {

// Tests have their own.
struct ThisHost {
  // Whether `host`, a name or an address, means this host. May look it up.
  std::function<bool(const std::string& host)> is;
  // The address at which others reach this host, called `host`: that of the name or, where the name
  // leads back to the loopback interface (as a host's own one often does in /etc/hosts), the one
  // that leads to `other` ("host:port").
  std::function<Result<std::string>(const std::string& host, const std::string& other)> address;

  static ThisHost real();
};

// "localhost", 127.0.0.0/8 or ::1: another host on each.
bool isLoopback(const std::string& host);

}  // namespace colla::job
