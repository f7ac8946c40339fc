// Lines of text over a Unix socket: how the coordinator and its agents talk.
//
// A socket in the file system works between network namespaces too, and tells both sides at once
// when the other is gone. Not thread safe.
#pragma once

#include <optional>
#include <string>

#include "base/unique_fd.h"
#include "colla/status.h"

namespace colla::bench {

class LineSocket {
 public:
  explicit LineSocket(UniqueFd fd) : fd_(std::move(fd)) {}

  // A blocking socket, connected to the one that listens at `path`.
  static Result<LineSocket> connect(const std::string& path);
  // A listening socket at `path`, which must not be there yet.
  static Result<UniqueFd> listen(const std::string& path);

  int fd() const { return fd_.get(); }
  Status writeLine(std::string_view line);
  // Reads once from the socket, which blocks if it is a blocking one and nothing is there.
  // kPeerLost once the other side is gone.
  Status read();
  // The next whole line of what was read, without its end.
  std::optional<std::string> nextLine();
  // Waits for the next whole line.
  Result<std::string> readLine();

 private:
  UniqueFd fd_;
  std::string pending_;
};

}  // namespace colla::bench
