// A directory of checkpoints, one subdirectory per step: DIR/step-00000200/.
//
// A checkpoint is written aside, synced and renamed, so a subdirectory with such a name is whole,
// whenever the process or the machine stops. What replaces a checkpoint of the same step moves the
// old one aside first, and gives it back if the move was interrupted. What removes one renames it
// before. What a run that resumed before it has left behind is in DIR/set-aside-1/ and so on, each
// a directory of checkpoints of its own. DIR/best is a link to the best one, if one is marked.
// Names that begin with a dot are work in progress; nobody but their writer looks at them.
//
// One process at a time saves in a directory: it holds a lock (DIR/.lock) that ends with it, so
// what it finds half done is left over from a dead one, and is removed. Any number may read.
// Not thread safe; movable.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "checkpoint/loaded.h"
#include "checkpoint/manifest.h"
#include "checkpoint/tensor_view.h"
#include "colla/status.h"

namespace colla::checkpoint {

// What is saved beside the manifest.
struct Contents {
  std::span<const TensorView> parameters;
  std::span<const TensorView> buffers;
  std::span<const TensorView> optimizer;  // Named NAME/SLOT; scalars have the shape [].
};

struct Saved {
  std::int64_t step = 0;
  std::string path;
  std::uint64_t bytes = 0;  // Of all its files.
};

// "step-00000200"
std::string stepName(std::int64_t step);

// How errors name a checkpoint that can be had instead: for a run to go on from, or to look at.
enum class Offer { kResume, kName };

class Directory {
 public:
  // Nothing is touched yet, and nothing need be there.
  explicit Directory(std::string path, Offer offer = Offer::kResume)
      : path_(std::move(path)), offer_(offer) {}

  const std::string& path() const { return path_; }

  // The steps that have a checkpoint, ascending; none if there is no such directory.
  Result<std::vector<std::int64_t>> list() const;

  // The last of them; kNotFound if there is none.
  Result<std::int64_t> newest() const;

  // Marks the checkpoint of `step` as the best one: DIR/best links to it, and prune() spares it.
  // Nothing: none is the best.
  Status markBest(std::optional<std::int64_t> step);
  // The step that is marked; kNotFound if there is none.
  Result<std::int64_t> best() const;

  // kNotFound if there is no such step, with the steps that there are. For one that is damaged the
  // error says what is wrong with which file, and which is the newest whole one before it.
  Result<Loaded> load(std::int64_t step) const;
  Result<Loaded> loadNewest() const;
  // The same, but only the manifest is read and can be damaged: for those who want to know what
  // load() would give, and do not need the tensors.
  Result<Manifest> manifest(std::int64_t step) const;

  // Makes the directory and takes its lock, as save() and prune() do themselves: for those who want
  // to know before they train that the directory is theirs. kRefused, with the holder, if not.
  Status own();

  // Returns when the checkpoint is on the disk. After an error those that were there still are, the
  // error names the newest whole one, and nothing is left of this one. Sets the manifest's files,
  // buffers, version and, if it has none, time.
  Result<Saved> save(Manifest manifest, const Contents& contents);

  // Moves the checkpoints of later steps than `step` into a new folder in this directory, which has
  // its own name and is never pruned; the folder's path, empty if there are none. For a run that
  // goes on from `step`: what it saves is then the newest. Interrupted, it has moved the newest.
  Result<std::string> setAside(std::int64_t step);

  // Of the steps up to `newest`, removes all but the last `keep` and the best one. Later ones stay:
  // they are not of the run that calls this, which resumed before them.
  Status prune(int keep, std::int64_t newest);

 private:
  // Step to the name of the subdirectory that has it.
  Result<std::map<std::int64_t, std::string>> scan() const;
  // The subdirectory of a step, as a path.
  Result<std::string> find(std::int64_t step) const;
  // The newest whole one before a step and how to take it, in words; empty if there is none.
  std::string offer(std::int64_t before) const;
  // Why `step` cannot be had, and what can be had instead.
  Status withOffer(const Status& status, std::int64_t step) const;
  std::string workName(std::int64_t step) const;
  Status takeLock();
  void tidy() const;
  Result<Saved> writeAside(const std::string& aside, Manifest& manifest,
                           const Contents& contents) const;
  Status publish(const std::string& aside, const std::string& name) const;
  std::string at(const std::string& name) const { return path_ + "/" + name; }

  std::string path_;
  Offer offer_;
  UniqueFd lock_;
};

}  // namespace colla::checkpoint
