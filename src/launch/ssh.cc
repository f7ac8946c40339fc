#include "launch/ssh.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <sstream>
#include <string_view>

#include "base/invalid.h"

namespace colla::launch {
namespace {

// "ssh -p 2222 b", for advice.
std::string byHand(const std::string& host, const SshOptions& options) {
  std::string text = "ssh";
  if (options.port > 0) text += fmt::format(" -p {}", options.port);
  if (!options.identity.empty()) text += fmt::format(" -i {}", options.identity);
  return text + " " + host;
}

// What ssh offered when it was refused: "publickey,password".
std::string refusedMethods(const std::string& said) {
  const auto begin = said.rfind("Permission denied (");
  if (begin == std::string::npos) return "";
  const auto end = said.find(')', begin);
  return said.substr(begin + 19, end - begin - 19);
}

}  // namespace

std::string forShell(std::string_view text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

std::string lastLine(const std::string& text) {
  std::istringstream lines(text);
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.find_first_not_of(" \t") != std::string::npos) last = line;
  }
  return last;
}

std::vector<std::string> agentCommand(const std::string& colla, const std::string& copies) {
  if (copies.empty()) {
    return {"sh", "-c", "[ -x \"$0\" ] || set -- colla; exec \"${1:-$0}\" agent", colla};
  }
  return {"sh", "-c",
          "d=${XDG_CACHE_HOME:-$HOME/.cache}/colla/copies/$1; [ -x \"$0\" ] && exec \"$0\" agent; "
          "[ -x \"$d/colla\" ] && exec \"$d/colla\" agent; exec colla agent",
          colla, copies};
}

Status checkSsh(const SshOptions& options) {
  if (options.port < 0 || options.port > 65535) {
    return invalid("--ssh-port is {}, but must be from 1 to 65535", options.port);
  }
  if (!options.identity.empty() && access(options.identity.c_str(), R_OK) != 0) {
    return invalid("there is no key that can be read in {} (-i)", options.identity);
  }
  return {};
}

std::vector<std::string> sshCommand(const std::string& host, const SshOptions& options,
                                    const std::vector<std::string>& command, int connectSeconds) {
  // The first value of an option counts: what keeps us from waiting for ever comes before the
  // user's.
  std::vector<std::string> words = {"ssh", "-T", "-o", "BatchMode=yes"};
  if (options.port > 0) words.insert(words.end(), {"-p", std::to_string(options.port)});
  if (!options.identity.empty()) words.insert(words.end(), {"-i", options.identity});
  words.insert(words.end(), options.arguments.begin(), options.arguments.end());
  for (const std::string& option :
       {fmt::format("ConnectTimeout={}", connectSeconds), std::string("ServerAliveInterval=2"),
        std::string("ServerAliveCountMax=2"), std::string("ClearAllForwardings=yes"),
        std::string("ForwardX11=no"), std::string("ControlMaster=no")}) {
    words.insert(words.end(), {"-o", option});
  }
  // The user's login shell may be any: it only has to start sh.
  std::string line = "exec";
  for (const std::string& word : command) line += " " + forShell(word);
  words.insert(words.end(), {"--", host, line});
  return words;
}

std::string explainSsh(const std::string& host, const SshOptions& options, int exitCode,
                       const std::string& said) {
  const auto has = [&](std::string_view text) { return said.find(text) != std::string::npos; };
  const std::string hand = byHand(host, options);
  if (has("REMOTE HOST IDENTIFICATION HAS CHANGED")) {
    return fmt::format(
        "its key is not the one in known_hosts: if that is right, `ssh-keygen -R {}` "
        "forgets the old one",
        host);
  }
  if (has("Host key verification failed")) {
    return fmt::format(
        "its key is not in known_hosts: connect once by hand (`{}`), or "
        "`ssh-keyscan {} >> ~/.ssh/known_hosts`",
        hand, host);
  }
  if (has("Could not resolve hostname")) {
    return "there is no host of that name: see its spelling, /etc/hosts and ~/.ssh/config";
  }
  if (has("UNPROTECTED PRIVATE KEY FILE") || has("bad permissions")) {
    return "ssh does not use a key that others can read: run `chmod 600` on it";
  }
  const std::string methods = refusedMethods(said);
  if (methods.find("password") != std::string::npos ||
      methods.find("keyboard-interactive") != std::string::npos) {
    return fmt::format(
        "it wants a password, which `colla run` never asks for: copy a key there "
        "(`ssh-copy-id {}`), or name one with -i",
        host);
  }
  if (!methods.empty()) {
    return fmt::format("it refused the key: copy one there (`ssh-copy-id {}`), or name one with -i",
                       host);
  }
  if (has("Connection refused")) {
    return fmt::format("it refuses connections{}: is sshd running there, and at which port (-p)?",
                       options.port > 0 ? fmt::format(" at port {}", options.port) : "");
  }
  if (has("timed out") || has("No route to host") || has("Network is unreachable")) {
    return "it does not answer: is it up, and can it be reached from here?";
  }
  if (exitCode == 127 && (has("colla") || has("not found"))) {
    return "there is no Colla: install it there as it is here, or put `colla` into PATH for ssh";
  }
  if (exitCode == 126) return "Colla is there, but can't be executed: " + lastLine(said);
  const std::string last = lastLine(said);
  return fmt::format("ssh ended with exit code {}{}: try `{}`", exitCode,
                     last.empty() ? "" : " (" + last + ")", hand);
}

}  // namespace colla::launch
