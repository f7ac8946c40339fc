#include "study/peers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "base/invalid.h"
#include "colla/dataset.h"
#include "launch/program.h"

namespace colla::study {
namespace {

namespace fs = std::filesystem;

constexpr std::array kPeers = {
    Peer{"spark", "Spark MLlib", "mllib", false, true},
    Peer{"tf", "TensorFlow", "tf", true, false},
    Peer{"mxnet", "MXNet", "mxnet", true, false},
    Peer{"ddp", "PyTorch DDP", "torch", false, false},
};

// What the peers' programs have layers for (bench/peers/agent.py), the rate that Colla's model has
// by default, and the data that stands in.
struct PeerModel {
  std::string_view name;
  std::string_view rate;
  std::string_view data;
};
constexpr std::array kModels = {
    PeerModel{"lr", "0.1", "synthetic:lr:10000x1000"},
    PeerModel{"softmax", "0.1", "synthetic:mnist"},
    PeerModel{"snn", "0.01", "synthetic:mnist"},
    PeerModel{"mlp", "0.01", "synthetic:mnist"},
};

constexpr std::int64_t kRowsAtOnce = 500;

const Peer* findPeer(std::string_view name) {
  const auto found = std::ranges::find(kPeers, name, &Peer::name);
  return found == kPeers.end() ? nullptr : &*found;
}

const PeerModel* modelOf(const Options& options) {
  if (options.program.kind != Program::Kind::kModel) return nullptr;
  const auto found = std::ranges::find(kModels, options.program.name(), &PeerModel::name);
  return found == kModels.end() ? nullptr : &*found;
}

std::string listed(auto&& rows) {
  std::vector<std::string_view> names;
  for (const auto& row : rows) names.push_back(row.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string rateOf(const Options& options) {
  const std::vector<std::string>& flags = options.program.flags;
  const auto lr = std::ranges::find(flags, "--lr");
  if (lr != flags.end() && lr + 1 != flags.end()) return *(lr + 1);
  return std::string(modelOf(options)->rate);
}

bool hasAsync(const Options& options) {
  return options.strategies.empty() ||
         std::ranges::any_of(options.strategies,
                             [](const auto& text) { return text.starts_with("ps-async"); });
}

// DATA.x has the samples as float32, one behind the other, DATA.y their classes as int64.
Status writeData(const std::string& name, const std::string& path) {
  COLLA_TRY_ASSIGN(const auto dataset, openDataset(name, Part::kTrain));
  const std::vector<Field> fields = dataset->fields();
  const bool dense =
      fields.size() == 2 && fields[0].type == DataType::kFloat32 &&
      std::ranges::all_of(fields[0].shape, [](std::int64_t size) { return size > 0; }) &&
      fields[1].type == DataType::kInt64 && fields[1].shape.empty();
  if (!dense) {
    return invalid("--peers train on numbers with a class each, and {} has other fields", name);
  }
  std::ofstream inputs(path + ".x", std::ios::binary | std::ios::trunc);
  std::ofstream targets(path + ".y", std::ios::binary | std::ios::trunc);
  std::vector<std::int64_t> rows;
  Random random(0);  // Nothing of a training part without augmentation is random.
  for (std::int64_t begin = 0; begin < dataset->size(); begin += kRowsAtOnce) {
    rows.resize(static_cast<std::size_t>(std::min(kRowsAtOnce, dataset->size() - begin)));
    std::iota(rows.begin(), rows.end(), begin);
    COLLA_TRY_ASSIGN(const Batch batch, dataset->read(rows, random));
    for (const auto& [file, array] : {std::pair(&inputs, &batch[0]), {&targets, &batch[1]}}) {
      const auto bytes = array->bytes();
      file->write(reinterpret_cast<const char*>(bytes.data()),
                  static_cast<std::streamsize>(bytes.size()));
    }
  }
  inputs.close();
  targets.close();
  if (inputs && targets) return {};
  return {StatusCode::kIo,
          fmt::format("cannot write the peers' data to {}.x: is the disk full?", path)};
}

std::string lastLineOf(const std::string& path) {
  std::ifstream file(path);
  std::string last;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) last = line;
  }
  return last;
}

}  // namespace

std::span<const Peer> peers() { return kPeers; }

Status checkPeers(const Options& options) {
  for (std::size_t i = 0; i < options.peers.size(); ++i) {
    const std::string& name = options.peers[i];
    if (findPeer(name) == nullptr) {
      return invalid("there is no peer \"{}\"; there are {}", name, listed(kPeers));
    }
    if (std::find(options.peers.begin(), options.peers.begin() + static_cast<std::ptrdiff_t>(i),
                  name) != options.peers.begin() + static_cast<std::ptrdiff_t>(i)) {
      return invalid("{} is named twice in --peers", name);
    }
  }
  if (options.peers.empty()) return {};
  if (modelOf(options) == nullptr) {
    return invalid("--peers train {}, and not {}", listed(kModels), options.program.name());
  }
  for (std::size_t i = 0; i < options.program.flags.size(); ++i) {
    const std::string& flag = options.program.flags[i];
    const bool value = i + 1 < options.program.flags.size();
    if (flag == "--lr" && value) {
      ++i;
    } else if (flag == "--optimizer" && value && options.program.flags[i + 1] == "sgd") {
      ++i;
    } else {
      return invalid("--peers train {} with plain SGD and its default layers: leave {} out",
                     options.program.name(), flag);
    }
  }
  return {};
}

std::string_view dataForPeers(const Options& options) {
  const PeerModel* const model = modelOf(options);
  return model == nullptr ? std::string_view() : model->data;
}

std::vector<Variant> peerVariants(const Options& options, const Variant& like) {
  std::vector<Variant> variants;
  for (const std::string& name : options.peers) {
    const Peer* const peer = findPeer(name);
    if (peer == nullptr || (peer->onlyLr && options.program.name() != "lr")) continue;
    Variant variant = like;
    variant.purpose = Purpose::kPeer;
    variant.peer = name;
    variant.strategy = name;
    variant.options.clear();
    variant.exact = false;
    variant.slices = variant.workers;
    variant.servers = peer->server || peer->onlyLr ? 1 : 0;
    variant.evalEvery = variant.saveEvery = 0;
    const auto add = [&](const std::string& suffix, const std::string& how, std::string remark) {
      variant.peer = name + suffix;
      variant.id = fmt::format("{}-{}", variant.peer, variant.workers);
      variant.label = fmt::format("{}{}, {} worker{}", peer->label, how, variant.workers,
                                  variant.workers == 1 ? "" : "s");
      variant.remark = std::move(remark);
      variants.push_back(variant);
    };
    add("", peer->server ? " sync" : "",
        peer->onlyLr ? "a driver beside the executors; a batch is drawn, its size is a mean" : "");
    if (peer->onlyLr && options.peersFromDisk) {
      add("-disk", " from disk", "reads the samples from disk again in each pass");
    }
    if (peer->server && hasAsync(options)) {
      add("-async", " async", "each worker's gradients are an update of their own");
    }
  }
  return variants;
}

std::vector<std::string> peersLeftOut(const Options& options) {
  std::vector<std::string> sentences;
  for (const std::string& name : options.peers) {
    const Peer* const peer = findPeer(name);
    if (peer != nullptr && peer->onlyLr && options.program.name() != "lr") {
      sentences.push_back(fmt::format("{} has no gradient descent for {}: it is measured with lr.",
                                      peer->label, options.program.name()));
    }
  }
  return sentences;
}

Result<PeerGround> PeerGround::prepare(Runner& runner, const Options& options,
                                       const std::string& folder, const WriteFiles& writeFiles) {
  PeerGround ground;
  ground.folder_ = fs::absolute(folder);
  if (!writeFiles) return {StatusCode::kUnsupported, "this build of Colla has no peers"};
  const char* const path = std::getenv("PATH");
  COLLA_TRY_ASSIGN(const std::string python,
                   launch::findProgram("python3", path == nullptr ? "" : path));
  for (const std::string& name : options.peers) {
    const std::string environment(findPeer(name)->environment);
    if (ground.pythons_.contains(environment)) continue;
    RunJob job;
    job.directory = ground.folder_ + "/find";
    // The runner empties its directory, so the files come after it made one.
    COLLA_TRY(writeFiles(ground.folder_));
    job.command = {.colla = false,
                   .words = {python, ground.folder_ + "/environments.py", environment, "--make",
                             "--beside", fs::path(pathOfColla()).parent_path()}};
    job.brief = true;
    bool told = false;
    COLLA_TRY_ASSIGN(const RunResult found, runner.run(job, [&] {
      const std::string line = lastLineOf(job.directory + "/output.txt");
      if (told || !line.starts_with("install ")) return;
      told = true;
      fmt::print(stderr, "colla study: {}\n", line);
    }));
    const std::string last = lastLineOf(job.directory + "/output.txt");
    std::error_code error;
    fs::remove_all(job.directory, error);
    if (!found.done() || !last.starts_with("/")) {
      return invalid("no environment for the peer {}: {}", name, last.empty() ? found.error : last);
    }
    ground.pythons_[environment] = last;
  }
  COLLA_TRY(writeData(options.settings.data, ground.folder_ + "/data"));
  return ground;
}

void PeerGround::complete(const Options& options, std::vector<Variant>& variants) const {
  for (Variant& variant : variants) {
    if (variant.purpose != Purpose::kPeer) continue;
    const Peer* const peer = findPeer(variant.strategy);
    variant.peerWords = {pythons_.at(std::string(peer->environment)),
                         folder_ + "/peer_training.py",
                         variant.peer,
                         "--model",
                         options.program.name(),
                         "--rate",
                         rateOf(options),
                         "--data",
                         folder_ + "/data"};
  }
}

void PeerGround::removeData(const std::string& folder) {
  std::error_code error;
  for (const char* const end : {".x", ".y", ".w"}) fs::remove(folder + "/data" + end, error);
}

}  // namespace colla::study
