// What one process has exchanged with one of its peers, for the metrics.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/metric_families.h"
#include "base/metrics.h"

namespace colla::transport {

// Not thread safe: the Messenger's lock guards it.
class Traffic {
 public:
  Traffic(std::string_view transport, const std::string& peer, const std::string& peerHost)
      : Traffic({std::string(transport), peerHost}, peer) {}

  void sent(std::size_t bytes) {
    sentBytes_.add(bytes);
    sentMessages_.add();
  }
  void received(std::size_t bytes) {
    receivedBytes_.add(bytes);
    receivedMessages_.add();
  }
  void waited(std::chrono::nanoseconds time) { waited_.add(time); }

 private:
  Traffic(const std::vector<std::string>& wire, const std::string& peer)
      : sentBytes_(metrics::family("colla_sent_bytes_total"), wire),
        sentMessages_(metrics::family("colla_sent_messages_total"), wire),
        receivedBytes_(metrics::family("colla_received_bytes_total"), wire),
        receivedMessages_(metrics::family("colla_received_messages_total"), wire),
        waited_(metrics::family("colla_wait_seconds_total"), {peer}) {}

  metrics::Counter sentBytes_;
  metrics::Counter sentMessages_;
  metrics::Counter receivedBytes_;
  metrics::Counter receivedMessages_;
  metrics::Counter waited_;
};

}  // namespace colla::transport
