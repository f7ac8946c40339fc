// What a Messenger needs from a backend: streams to peers, and a way to sleep until they move.
//
// The higher-numbered peer of a pair connects, the lower-numbered one accepts: both post requests
// for any message, so the one that connects always gets to know. Streams arrive through poll()
// once the other side has proved who it is, and so does the news that it can't come any more.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "colla/status.h"
#include "transport/stream.h"

namespace colla::transport {

class SharedMemory;

class Backend {
 public:
  // A stream to `peer`, or (with no stream) why there will be none.
  struct Arrival {
    int peer;
    std::unique_ptr<Stream> stream;
    Status status;
  };
  // There is no stream to `peer`, which is called `name`.
  static Arrival noStream(int peer, const std::string& name, const Status& why);
  // A stream to wait for: for bytes to read, for room to write, or for either.
  struct Watch {
    Stream* stream;
    bool read;
    bool write;
    bool ready;  // Set by sleep(); a false alarm does no harm.
  };

  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  virtual SharedMemory* sharedMemory() { return nullptr; }
  // Options::connections streams per pair of peers, and not just one.
  virtual bool stripes() const { return false; }

  // Starts to connect to a lower-numbered peer; called once for each. Does not block.
  virtual void connect(int peer) = 0;
  // The same for a higher-numbered peer, which is to connect, and may have done so already.
  virtual void expect(int peer) = 0;
  // Appends what has arrived since the last call. Calls of those above and of poll() are
  // serialised; they may come while another thread is in sleep().
  virtual void poll(std::vector<Arrival>& arrivals) = 0;

  // Blocks until one of `watches` is ready, poll() may have news, wake() is called or `until`
  // is over. One thread at a time. The streams live through the call.
  virtual void sleep(std::span<Watch> watches, Deadline until) = 0;
  // Makes the current sleep(), or the next one, return. From any thread.
  virtual void wake() = 0;
};

}  // namespace colla::transport
