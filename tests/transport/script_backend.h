// A backend with one peer whose every byte the test writes, for what no honest peer sends.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "transport/backend.h"
#include "transport/frame.h"

namespace colla::transport {

// What the peer says, and what it was told.
struct Script {
  std::vector<std::byte> says;
  std::size_t heard = 0;        // Bytes of `says` that were read.
  std::size_t readLimit = ~0U;  // Per read, to cut frames anywhere.
  bool ends = false;            // The peer is gone after its last word.
  bool deaf = false;            // It reads nothing.
  std::vector<std::byte> told;

  void say(const Frame& frame, std::span<const std::byte> body = {}) {
    const std::size_t at = says.size();
    says.resize(at + kFrameBytes);
    encode(frame, std::span(says).subspan(at).first<kFrameBytes>());
    says.insert(says.end(), body.begin(), body.end());
  }
};

class ScriptStream final : public Stream {
 public:
  explicit ScriptStream(std::shared_ptr<Script> script) : script_(std::move(script)) {}

  Result<std::size_t> read(std::span<std::byte> out) override {
    const std::size_t left = script_->says.size() - script_->heard;
    const std::size_t count = std::min({left, out.size(), script_->readLimit});
    if (count == 0 && script_->ends) return {StatusCode::kPeerLost, "connection closed"};
    if (count > 0) std::memcpy(out.data(), script_->says.data() + script_->heard, count);
    script_->heard += count;
    return count;
  }
  Result<std::size_t> write(std::span<const std::byte> data) override {
    if (script_->deaf) return std::size_t{0};
    script_->told.insert(script_->told.end(), data.begin(), data.end());
    return data.size();
  }

 private:
  std::shared_ptr<Script> script_;
};

class ScriptBackend final : public Backend {
 public:
  explicit ScriptBackend(std::shared_ptr<Script> script) : script_(std::move(script)) {}

  std::string_view name() const override { return "script"; }
  void connect(int peer) override { asked_ = peer; }
  void expect(int /*peer*/) override {}
  void poll(std::vector<Arrival>& arrivals) override {
    if (asked_ < 0) return;
    arrivals.push_back({std::exchange(asked_, -1), std::make_unique<ScriptStream>(script_), {}});
  }
  // Never blocks: all there will ever be is there.
  void sleep(std::span<Watch> watches, Deadline /*until*/) override {
    for (Watch& watch : watches) watch.ready = true;
  }
  void wake() override {}

 private:
  std::shared_ptr<Script> script_;
  int asked_ = -1;
};

}  // namespace colla::transport
