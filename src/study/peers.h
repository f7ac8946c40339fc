// Other systems that a study trains the same model with, each in an environment of its own:
// bench/peers has their programs. They are measured, and never recommended.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "colla/status.h"
#include "study/options.h"
#include "study/run.h"
#include "study/variant.h"

namespace colla::study {

struct Peer {
  std::string_view name;         // As --peers takes it.
  std::string_view label;        // For people.
  std::string_view environment;  // Of bench/peers/environments.py.
  bool server = false;           // Has a parameter server, and so an asynchronous variant.
  bool onlyLr = false;           // Trains logistic regression alone.
};

std::span<const Peer> peers();

// kInvalidArgument, before anything runs, for a name that there is not, and for a program that
// peers do not train. Empty options.peers are fine.
Status checkPeers(const Options& options);

// A variant for each of options.peers with `workers` workers; `like`: Colla's with as many.
// Asynchronous ones too, if the study has ps-async.
std::vector<Variant> peerVariants(const Options& options, const Variant& like);
// Why a peer of options.peers has no variant: a sentence each.
std::vector<std::string> peersLeftOut(const Options& options);

// The data that a model is trained on where the user names none.
std::string_view dataForPeers(const Options& options);

// What runs of peers need in a study's directory.
class PeerGround {
 public:
  using WriteFiles = std::function<Status(const std::string& folder)>;

  // Makes `folder`, with the peers' programs and the training data, and finds the Python of each
  // environment, which is made where it is missing: that takes minutes, once.
  static Result<PeerGround> prepare(Runner& runner, const Options& options,
                                    const std::string& folder, const WriteFiles& writeFiles);
  // Completes the commands of peers' variants.
  void complete(const Options& options, std::vector<Variant>& variants) const;
  // The copy of the data, which may be large; the rest is needed to repeat a command.
  static void removeData(const std::string& folder);

 private:
  std::string folder_;
  std::map<std::string, std::string> pythons_;  // By environment.
};

}  // namespace colla::study
