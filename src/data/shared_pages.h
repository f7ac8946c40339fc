// Large arrays whose bytes the processes of a host keep once.
//
// Every process makes its data by itself, then one of them publishes the pages of its arrays in a
// memfd, and the others replace those of their own pages that have the same bytes by these. Arrays
// stay where they are, so nobody who holds one notices. What differs, or can't be shared, stays as
// it was. The mapping is copy-on-write: whoever writes to an array all the same has written to
// memory of its own. Nothing is left when the last process is gone, however it went.
//
// To be used while nobody writes to the arrays.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "colla/array.h"
#include "colla/status.h"

namespace colla::data {

inline constexpr std::size_t kPageBytes = 4096;
// Array::allocate() takes pages of their own from this size on; malloc maps such sizes, too.
inline constexpr std::size_t kLeastShared = 32 << 20;

// What frees the pages of an Array, and tells of an array that it has such.
struct PagesDeleter {
  std::span<std::byte> pages;
  void operator()(std::byte* data) const;
};

using Pages = std::vector<std::span<std::byte>>;

// The pages of `arrays` that have some of their own, each once.
Pages pagesOf(std::span<const Array> arrays);

// A file that holds the bytes of all `pages`, one behind the other, and can't be changed. They are
// mapped from it now, piece by piece, so that no more memory is taken than before. An error that is
// not kInternal leaves everything as it was, or some pages shared: both are fine.
Result<UniqueFd> publishPages(const Pages& pages);

// What another process of this host published: of `file`, a path such as /proc/7/fd/3.
Result<UniqueFd> openPages(const std::string& file);

// Replaces those of `pages` whose bytes are the same in `file`, where they begin at `offset`.
// Returns how many bytes these were.
Result<std::size_t> adoptPages(const UniqueFd& file, std::size_t offset,
                               std::span<std::byte> pages);

}  // namespace colla::data
