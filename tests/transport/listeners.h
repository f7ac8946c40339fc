// Connects the peers of a test whose backend listens first.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "transport/net/listener.h"
#include "transport/options.h"
#include "transport/transport.h"

namespace colla::transport {

// One transport for each of `options`: listen(options) for all of them, then, knowing all
// addresses, connect(options, listener).
template <typename Listen, typename Connect>
std::vector<std::unique_ptr<Transport>> connectAll(std::vector<Options> options,
                                                   const Listen& listen, const Connect& connect) {
  std::vector<std::unique_ptr<net::Listener>> listeners;
  for (const Options& each : options) {
    auto listener = listen(each);
    EXPECT_TRUE(listener.ok()) << listener.status();
    if (listener.ok()) listeners.push_back(*std::move(listener));
  }
  std::vector<std::unique_ptr<Transport>> transports;
  if (listeners.size() != options.size()) return transports;
  for (Options& each : options) {
    for (std::size_t i = 0; i < listeners.size(); ++i) {
      each.peers[i].address = listeners[i]->address();
    }
  }
  for (std::size_t i = 0; i < options.size(); ++i) {
    auto transport = connect(options[i], std::move(listeners[i]));
    EXPECT_TRUE(transport.ok()) << transport.status();
    if (transport.ok()) transports.push_back(*std::move(transport));
  }
  return transports;
}

}  // namespace colla::transport
