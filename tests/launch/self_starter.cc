// A program that starts its own workers:
// self_starter [--np N] [--ps P] [--spare-workers S] [--SETTING VALUE]… MODE.
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "colla/job.h"
#include "job/environment.h"
#include "job/settings.h"
#include "launch/start_workers.h"
#include "observe/progress.h"

using namespace colla;

namespace {

volatile std::sig_atomic_t interrupts = 0;

void onInterrupt(int) { interrupts = interrupts + 1; }

// Waits for a line on standard input, through interrupts.
void waitForLine() {
  char byte = 0;
  while (byte != '\n' && (read(STDIN_FILENO, &byte, 1) > 0 || interrupts > 0)) continue;
}

int fail(const Status& status, int exitCode) {
  fmt::print(stderr, "self_starter: {}\n", status.message());
  return exitCode;
}

int meet(int argc, char** argv) {
  const auto job = Job::init();
  if (!job.ok()) return fail(job.status(), 1);
  const char* omp = std::getenv("OMP_NUM_THREADS");
  fmt::print("{} {} of {}, {} threads (OMP {}), {} slices, last argument {}\n",
             toString((*job)->role()), (*job)->rank(), (*job)->size(), (*job)->threads(),
             omp == nullptr ? "none" : omp, (*job)->slices(), argv[argc - 1]);
  return 0;
}

// Two jobs at the same time, and one after them.
Status severalJobs() {
  const auto add = [](Job& job, float number) -> Status {
    std::vector<float> data = {number};
    COLLA_TRY(allreduce(job.world(), data));
    fmt::print("sum {}\n", data[0]);
    return {};
  };
  {
    COLLA_TRY_ASSIGN(const auto first, Job::init());
    COLLA_TRY_ASSIGN(const auto second, Job::init());
    COLLA_TRY(add(*second, 20));
    COLLA_TRY(add(*first, 1));
  }
  COLLA_TRY_ASSIGN(const auto third, Job::init());
  return add(*third, 300);
}

int work(std::string_view mode, int rank) {
  if (mode == "wait") {
    fmt::print("ready\n");
    std::fflush(stdout);
    for (;;) pause();
  }
  if (mode == "fail") {  // Rank 1 does; the others wait for it.
    if (rank != 1) {
      for (;;) pause();
    }
    fmt::print(stderr, "something broke\n");
    return 3;
  }
  if (mode == "halves") {  // Worker 0 stops in the middle of a line until it reads one.
    if (rank == 0) {
      fmt::print("first ");
      std::fflush(stdout);
      waitForLine();
      fmt::print("line\nno line feed");
      return 0;
    }
    std::signal(SIGUSR1, onInterrupt);  // The others speak when they are told to.
    fmt::print(stderr, "waiting\n");
    while (interrupts == 0) usleep(1000);
    fmt::print("of another\n");
    std::fflush(stdout);
    // Once the front has taken that out of the pipe.
    for (int left = 1; left > 0; usleep(1000)) ioctl(STDOUT_FILENO, FIONREAD, &left);
    fmt::print(stderr, "said so\n");
    return 0;
  }
  if (mode == "save") {  // After an interrupt, worker 0 takes its time; the others leave at once.
    struct sigaction action {};
    action.sa_handler = onInterrupt;
    sigaction(SIGINT, &action, nullptr);
    fmt::print("ready\n");
    std::fflush(stdout);
    while (interrupts == 0) usleep(1000);
    // Without the leak sanitizer's look at the end: it stops the process by a signal of its own,
    // and waits for ever if the SIGCONT that follows an interrupt comes in between.
    if (rank != 0) _exit(0);
    fmt::print("saving\n");
    std::fflush(stdout);
    waitForLine();
    fmt::print("saved\n");
    return 0;
  }
  if (mode == "bar") {
    if (rank != 0) {
      waitForLine();  // Nobody gives it one: the end of its input.
      return 0;
    }
    winsize size{};
    ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    fmt::print("terminal {} width {}\n", isatty(STDOUT_FILENO), size.ws_col);
    observe::Progress progress(stdout);
    progress.begin({.epoch = 1, .epochs = 1, .steps = 4});
    waitForLine();
    fmt::print(stderr, "a warning\n");
    // Until the window changes; the test has a deadline.
    for (const auto before = size.ws_col; size.ws_col == before; usleep(1000)) {
      ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    }
    const std::array<observe::Metric, 1> metrics = {{{"width", static_cast<double>(size.ws_col)}}};
    progress.step(4, 400, metrics);
    progress.end(metrics);
    return 0;
  }
  return 99;
}

}  // namespace

int main(int argc, char** argv) {
  launch::StartOptions options;
  std::map<std::string, std::string> flags;
  std::string mode = "meet";
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (!word.starts_with("--")) {
      mode = word;
    } else if (word == "--spare-workers") {
      options.spareWorkers = std::atoi(argv[++i]);
    } else if (word == "--np" || word == "--ps") {
      (word == "--np" ? options.workers : options.servers) = std::atoi(argv[++i]);
    } else {
      flags[word.substr(2)] = argv[++i];
    }
  }
  auto config =
      Config::load(job::settings(), flags, "", [](const char* name) { return std::getenv(name); });
  if (!config.ok()) return fail(config.status(), 2);
  options.config = *std::move(config);
  std::thread thread;
  if (mode == "thread") thread = std::thread([] { pause(); });

  const auto started = launch::startWorkers(options);
  if (!started.ok()) {
    std::_Exit(fail(started.status(), 2));
  }
  if (*started) return **started;
  if (mode == "meet") return meet(argc, argv);
  if (mode == "jobs") {
    const Status status = severalJobs();
    return status.ok() ? 0 : fail(status, 1);
  }
  const auto place = job::readEnvironment([](const char* name) { return std::getenv(name); });
  return place.ok() ? work(mode, place->rank) : fail(place.status(), 1);
}
