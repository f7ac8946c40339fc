// The way from a TLS connection with a peer to a stream over UCX, which authenticates nobody.
//
// 1. Over TLS, where both have proved that they know the job's secret and agree on epoch and
//    numbers, each tells the other its address in UCX, a number for the link, and a fresh nonce.
// 2. Over UCX each proves that it is the one that said so: an HMAC with a key from the job's secret
//    over the epoch and both of those records, which is no use at any other time or to anybody
//    else.
// Before the other's proof has come, nothing that UCX brings is read.
//
// Never blocks. Not thread safe: the worker's mutex guards it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "transport/net/keys.h"
#include "transport/options.h"
#include "transport/stream.h"
#include "transport/ucx/stream.h"
#include "transport/ucx/worker.h"

namespace colla::transport::ucx {

class Newcomer {
 public:
  Newcomer(int peer, std::unique_ptr<Stream> tls, std::shared_ptr<Worker> worker,
           const Options& options);
  ~Newcomer();
  Newcomer(Newcomer&&) = default;
  Newcomer& operator=(Newcomer&&) = default;

  int peer() const { return peer_; }
  // Goes on as far as it can; whether it is there. After an error, drop it.
  Result<bool> step();
  // step() will say something new.
  bool hasNews() {
    return tls_ == nullptr && (!stream_->proof().empty() || !stream_->problem().ok());
  }
  // To wait for news of it, or for room.
  int fd() const;
  bool wantsWrite() const { return written_ < mine_.size(); }
  std::unique_ptr<UcxStream> takeStream() { return std::move(stream_); }

 private:
  Status exchange();
  net::Key proofOf(bool connector) const;
  bool connects() const { return options_->self > peer_; }

  int peer_;
  std::unique_ptr<Stream> tls_;  // Until the stream has it as its lifeline.
  const Options* options_;
  std::shared_ptr<Worker> worker_;
  std::unique_ptr<UcxStream> stream_;
  std::vector<std::byte> mine_;  // The records, with their sizes.
  std::size_t written_ = 0;
  std::vector<std::byte> theirs_;
  std::size_t read_ = 0;
};

}  // namespace colla::transport::ucx
