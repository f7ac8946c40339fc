#include "study/counters.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>

namespace colla::study {
namespace {

constexpr std::string_view kHead = "metrics at http://127.0.0.1:";

// name{label="value",…} number
struct PageLine {
  std::string name;
  std::map<std::string, std::string> labels;
  double value = 0;
};

std::optional<PageLine> readPageLine(std::string_view line) {
  if (line.empty() || line.front() == '#') return std::nullopt;
  PageLine result;
  const auto brace = line.find_first_of("{ ");
  if (brace == std::string_view::npos) return std::nullopt;
  result.name = line.substr(0, brace);
  std::string_view rest = line.substr(brace);
  if (rest.front() == '{') {
    rest.remove_prefix(1);
    while (!rest.empty() && rest.front() != '}') {
      const auto equals = rest.find("=\"");
      if (equals == std::string_view::npos) return std::nullopt;
      const std::string label(rest.substr(0, equals));
      rest.remove_prefix(equals + 2);
      std::string value;
      while (!rest.empty() && rest.front() != '"') {
        if (rest.front() == '\\' && rest.size() > 1) rest.remove_prefix(1);
        value += rest.front();
        rest.remove_prefix(1);
      }
      if (rest.empty()) return std::nullopt;
      rest.remove_prefix(1);
      if (rest.starts_with(',')) rest.remove_prefix(1);
      result.labels[label] = value;
    }
    if (rest.empty()) return std::nullopt;
    rest.remove_prefix(1);
  }
  result.value = std::strtod(std::string(rest).c_str(), nullptr);
  return result;
}

}  // namespace

double Counters::of(const std::string& name) const {
  const auto found = values.find(name);
  return found == values.end() ? 0 : found->second;
}

double Counters::sumOf(std::string_view name) const {
  double sum = 0;
  const std::string begin = fmt::format("{}{{", name);
  for (const auto& [key, value] : values) {
    if (key == name || key.starts_with(begin)) sum += value;
  }
  return sum;
}

std::vector<Counters> readPage(std::string_view page) {
  std::map<std::pair<std::string, int>, Counters> found;
  while (!page.empty()) {
    const auto end = page.find('\n');
    const auto line = readPageLine(page.substr(0, end));
    page.remove_prefix(end == std::string_view::npos ? page.size() : end + 1);
    if (!line || line->name.ends_with("_bucket")) continue;
    auto labels = line->labels;
    const std::string role = labels["role"];
    const int rank = std::atoi(labels["rank"].c_str());
    Counters& counters = found[{role, rank}];
    counters.role = role;
    counters.rank = rank;
    std::string own;
    for (const auto& [label, value] : labels) {
      // Whom it was sent to, or waited for, is summed over.
      if (label == "role" || label == "rank" || label == "host" || label == "peer_host" ||
          label == "peer") {
        continue;
      }
      own += (own.empty() ? "" : ",") + value;
    }
    const std::string key = own.empty() ? line->name : fmt::format("{}{{{}}}", line->name, own);
    counters.values[key] += line->value;
  }
  std::vector<Counters> result;
  for (auto& [place, counters] : found) result.push_back(std::move(counters));
  return result;
}

int portIn(std::string_view line) {
  const auto at = line.find(kHead);
  if (at == std::string_view::npos) return 0;
  const std::string_view number = line.substr(at + kHead.size());
  int port = 0;
  std::from_chars(number.data(), number.data() + number.size(), port);
  return port;
}

Result<Scrape> Scrape::begin(int port, Deadline deadline) {
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (!socket.valid() ||
      (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 &&
       errno != EINPROGRESS)) {
    return {StatusCode::kIo,
            fmt::format("ask port {} for metrics: {}", port, std::strerror(errno))};
  }
  return Scrape(std::move(socket), deadline,
                "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
}

void Scrape::addTo(launch::Watch& watch) {
  advance();
  if (!ended_) watch.add(socket_.get(), [this] { advance(); });
}

void Scrape::advance() {
  while (!request_.empty()) {
    const ssize_t count = send(socket_.get(), request_.data(), request_.size(), MSG_NOSIGNAL);
    if (count < 0) {
      if (errno != EAGAIN && errno != ENOTCONN) ended_ = failed_ = true;
      return;
    }
    request_.erase(0, static_cast<std::size_t>(count));
  }
  std::array<char, 16384> buffer;
  while (!ended_) {
    const ssize_t count = read(socket_.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count < 0) failed_ = true;
    if (count <= 0) ended_ = true;
    if (count > 0) answer_.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

std::optional<Result<std::string>> Scrape::done() {
  advance();
  if (!ended_ && !deadline_.expired()) return std::nullopt;
  const auto body = answer_.find("\r\n\r\n");
  if (failed_ || !ended_ || !answer_.starts_with("HTTP/1.1 200") || body == std::string::npos) {
    return Result<std::string>(StatusCode::kIo, "the run did not answer with its metrics");
  }
  return Result<std::string>(answer_.substr(body + 4));
}

}  // namespace colla::study
