// A file is a sequence of records (TFRecord), each one Event message:
//
//   length     8 bytes
//   crc        4 bytes, of the length
//   data       length bytes
//   crc        4 bytes, of the data
//
// all little-endian. Checksums are CRC-32C, masked. The first Event holds the version of
// the format and nothing else.
#include "observe/event_writer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <filesystem>
#include <protozero/pbf_writer.hpp>
#include <system_error>

#include "base/crc32c.h"

namespace colla::observe {
namespace {

using WallTime = EventWriter::WallTime;

// Field numbers of tensorflow.Event, Summary, Summary.Value and SessionLog.
enum EventField : protozero::pbf_tag_type {
  kWallTime = 1,
  kStep = 2,
  kFileVersion = 3,
  kSummary = 5,
  kSessionLog = 7
};
constexpr protozero::pbf_tag_type kSummaryValue = 1;
enum ValueField : protozero::pbf_tag_type { kTag = 1, kSimpleValue = 2 };
constexpr protozero::pbf_tag_type kSessionStatus = 1;
constexpr std::int32_t kSessionStart = 1;

double seconds(WallTime time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

std::uint32_t maskedCrc(std::string_view bytes) {
  return maskedCrc32c(std::as_bytes(std::span(bytes.data(), bytes.size())));
}

template <typename T>
void appendNumber(std::string& to, T value) {
  static_assert(std::endian::native == std::endian::little);
  to.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::string hostName() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

// A process that was restarted within a second takes the next one: names order the files.
Result<AppendFile> openFile(const std::string& directory, WallTime now,
                            const EventWriter::Options& options) {
  constexpr int kTries = 100;
  const auto time = static_cast<std::int64_t>(seconds(now));
  for (int later = 0;; ++later) {
    auto file = AppendFile::open(
        fmt::format("{}/events.out.tfevents.{:010}.{}", directory, time + later, hostName()),
        AppendFile::Mode::kCreate, options.flushEvery, *options.clock);
    if (file.ok() || file.status().code() != StatusCode::kRefused || later == kTries) return file;
  }
}

}  // namespace

Result<EventWriter> EventWriter::create(const std::string& directory, const Options& options) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) {
    return {StatusCode::kIo,
            fmt::format("cannot make the folder {}: {}", directory, error.message())};
  }
  const WallTime now = std::chrono::system_clock::now();
  COLLA_TRY_ASSIGN(AppendFile file, openFile(directory, now, options));
  EventWriter writer(std::move(file));
  {
    protozero::pbf_writer event(writer.event_);
    event.add_double(kWallTime, seconds(now));
    event.add_string(kFileVersion, "brain.Event:2");
  }
  COLLA_TRY(writer.writeEvent());
  {
    // What is dropped begins at the step of this event. A new run drops what one that got no
    // further than its beginning has left.
    protozero::pbf_writer event(writer.event_);
    event.add_double(kWallTime, seconds(now));
    event.add_int64(kStep, options.resumedStep + 1);
    protozero::pbf_writer session(event, kSessionLog);
    session.add_enum(kSessionStatus, kSessionStart);
    session.commit();
    COLLA_TRY(writer.writeEvent());
  }
  COLLA_TRY(writer.flush());  // A run shows up as soon as it starts.
  return writer;
}

Status EventWriter::scalar(std::string_view tag, std::int64_t step, double value,
                           WallTime wallTime) {
  const Metric metric{tag, value};
  return scalars("", step, {&metric, 1}, wallTime);
}

Status EventWriter::scalars(std::string_view prefix, std::int64_t step, Metrics metrics,
                            WallTime wallTime) {
  {
    protozero::pbf_writer event(event_);
    event.add_double(kWallTime, seconds(wallTime));
    event.add_int64(kStep, step);
    protozero::pbf_writer summary(event, kSummary);
    for (const Metric& metric : metrics) {
      protozero::pbf_writer value(summary, kSummaryValue);
      tag_.assign(prefix);
      tag_ += metric.name;
      value.add_string(kTag, tag_);
      value.add_float(kSimpleValue, static_cast<float>(metric.value));
    }
  }
  return writeEvent();
}

// Frames and appends event_.
Status EventWriter::writeEvent() {
  record_.clear();
  appendNumber(record_, static_cast<std::uint64_t>(event_.size()));
  appendNumber(record_, maskedCrc(record_));
  record_ += event_;
  appendNumber(record_, maskedCrc(event_));
  event_.clear();
  return file_.append(record_);
}

}  // namespace colla::observe
