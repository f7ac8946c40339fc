#include "observe/metrics_endpoint.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <httplib.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>

#include "observe/metrics_token.h"

namespace colla::observe {
namespace {

constexpr std::size_t kThreads = 2;     // Readers at a time; others wait.
constexpr time_t kSecondsOfClient = 5;  // What a client may take to ask, and to read.
constexpr char kFormat[] = "text/plain; version=0.0.4; charset=utf-8";
constexpr std::string_view kScheme = "Bearer ";

struct HostAddress {
  bool valid = false;
  bool loopback = false;
  bool six = false;
};

HostAddress parseAddress(const std::string& text) {
  in_addr four{};
  if (inet_pton(AF_INET, text.c_str(), &four) == 1) {
    return {.valid = true, .loopback = (ntohl(four.s_addr) >> 24) == 127, .six = false};
  }
  in6_addr six{};
  if (inet_pton(AF_INET6, text.c_str(), &six) == 1) {
    return {.valid = true, .loopback = IN6_IS_ADDR_LOOPBACK(&six) != 0, .six = true};
  }
  return {};
}

// httplib's own choice is SO_REUSEPORT, with which two jobs would share a port and its requests.
void setOptions(socket_t socket) {
  const int yes = 1;
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  fcntl(socket, F_SETFD, FD_CLOEXEC);
}

Status notBound(const std::string& address, int port, int error) {
  if (error == EADDRINUSE) {
    return {StatusCode::kIo,
            fmt::format("port {} of {} is taken: name a different --metrics-port, or 0 for a free "
                        "one",
                        port, address)};
  }
  return {StatusCode::kIo,
          fmt::format("no metrics at {} port {}: {}", address, port, std::strerror(error))};
}

}  // namespace

struct MetricsEndpoint::Impl {
  std::string url;
  std::string token;  // Empty: none is needed.
  std::string tokenFile;
  httplib::Server server;
  std::atomic<bool> ended = false;  // Nobody listens any more.
  std::thread thread;

  bool mayRead(const httplib::Request& request) const {
    if (token.empty()) return true;
    const std::string header = request.get_header_value("Authorization");
    return header.starts_with(kScheme) &&
           sameToken(std::string_view(header).substr(kScheme.size()), token);
  }
};

MetricsEndpoint::MetricsEndpoint(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::open(const Config& config) {
  auto port = static_cast<int>(config.integer("metrics_port"));
  if (port < 0) return std::unique_ptr<MetricsEndpoint>();
  const std::string address = config.text("metrics_address");
  const HostAddress parsed = parseAddress(address);
  if (!parsed.valid) {
    return {StatusCode::kInvalidArgument,
            fmt::format("{} is \"{}\", but takes an address of this host, such as 127.0.0.1 or "
                        "0.0.0.0",
                        config.origin("metrics_address"), address)};
  }
  auto impl = std::make_unique<Impl>();
  if (!parsed.loopback) {
    impl->tokenFile = config.text("metrics_token_file");
    if (impl->tokenFile.empty()) {
      COLLA_TRY_ASSIGN(impl->tokenFile, defaultTokenFile());
    }
    COLLA_TRY_ASSIGN(impl->token, loadToken(impl->tokenFile));
  }
  httplib::Server& server = impl->server;
  server.set_socket_options(setOptions);
  server.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
  server.set_keep_alive_max_count(1);  // A connection that idles would hold a thread.
  server.set_read_timeout(kSecondsOfClient);
  server.set_write_timeout(kSecondsOfClient);
  errno = 0;
  if (port == 0) {
    port = server.bind_to_any_port(address.c_str());
    if (port < 0) return notBound(address, 0, errno);
  } else if (!server.bind_to_port(address.c_str(), port)) {
    return notBound(address, port, errno);
  }
  const std::string host = parsed.six ? fmt::format("[{}]", address) : address;
  impl->url = fmt::format("http://{}:{}/metrics", host, port);
  return std::unique_ptr<MetricsEndpoint>(new MetricsEndpoint(std::move(impl)));
}

MetricsEndpoint::~MetricsEndpoint() {
  if (!impl_->thread.joinable()) return;
  // stop() has no effect before the thread listens.
  while (!impl_->server.is_running() && !impl_->ended) std::this_thread::yield();
  impl_->server.stop();
  impl_->thread.join();
}

void MetricsEndpoint::start(std::function<std::string()> page) {
  httplib::Server& server = impl_->server;
  server.set_pre_routing_handler([this](const httplib::Request& request,
                                        httplib::Response& response) {
    if (impl_->mayRead(request)) return httplib::Server::HandlerResponse::Unhandled;
    response.status = 401;
    response.set_header("WWW-Authenticate", "Bearer");
    response.set_content("401: show the token as \"Authorization: Bearer TOKEN\"\n", "text/plain");
    return httplib::Server::HandlerResponse::Handled;
  });
  server.Get("/metrics",
             [page = std::move(page)](const httplib::Request&, httplib::Response& response) {
               response.set_content(page(), kFormat);
             });
  impl_->thread = std::thread([this] {
    impl_->server.listen_after_bind();
    impl_->ended = true;
  });
}

std::string MetricsEndpoint::notice() const {
  if (impl_->token.empty()) return fmt::format("metrics at {}", impl_->url);
  return fmt::format("metrics at {}, with the token in {}", impl_->url, impl_->tokenFile);
}

}  // namespace colla::observe
