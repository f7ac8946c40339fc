// A piece of memory that processes of one host share, named by nothing but a file descriptor
// (memfd): when the last process that has it is gone, so is the memory.
//
// Its size is sealed and its pages are reserved before anybody uses it, so that writing to it
// can't fail. Movable; unmaps and closes itself.
#pragma once

#include <cstddef>
#include <span>

#include "base/unique_fd.h"
#include "colla/status.h"

namespace colla::transport::shm {

class Segment {
 public:
  Segment() = default;
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  ~Segment();

  // At least `bytes`, rounded up to pages, zeroed. kNoMemory with what is needed and what there is.
  static Result<Segment> create(std::size_t bytes);
  // Maps what another process created: refused unless it is sealed and has just this size.
  static Result<Segment> attach(UniqueFd fd, std::size_t bytes);

  std::span<std::byte> bytes() const { return bytes_; }
  // To pass on; stays open as long as the segment.
  int fd() const { return fd_.get(); }

 private:
  Status map(std::size_t bytes);
  UniqueFd fd_;
  std::span<std::byte> bytes_;
};

// Memory that can still be used: what the system has free, or what this process's control group
// allows, whichever is less.
std::size_t availableMemory();

}  // namespace colla::transport::shm
