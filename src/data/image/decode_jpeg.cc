// libjpeg reports errors by a call that must not return, so that we have to jump over its frames.
// All that has to be cleaned up lives in a Job that the caller of decode() owns: no destructor is
// jumped over.
#include <fmt/format.h>

// jpeglib.h needs <cstdio> before it; jerror.h has no names of arithmetic coding without jpeglib.h.
// clang-format off
#include <cstdio>
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <array>
#include <csetjmp>
#include <string>
#include <vector>

#include "data/image/decode.h"

namespace colla::data {
namespace {

// Progressive files may come in any number of passes over all pixels; honest ones have a dozen.
constexpr int kMaxScans = 200;

struct Job {
  Job() = default;
  ~Job() { jpeg_destroy_decompress(&info); }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf jump{};
  std::int64_t maxPixels = 0;
  std::string failure;  // Empty: none.
  Image image;
  std::vector<std::uint8_t> row;
};

// To be called when job.failure is set, from where nothing is left to be destroyed.
[[noreturn]] void leave(Job& job) {
  std::longjmp(job.jump, 1);  // NOLINT(cert-err52-cpp): libjpeg's interface leaves no other way.
}

void onError(j_common_ptr info) {
  Job& job = *static_cast<Job*>(info->client_data);
  std::array<char, JMSG_LENGTH_MAX> text{};
  info->err->format_message(info, text.data());
  job.failure = fmt::format("a damaged JPEG image ({})", text.data());
  leave(job);
}

// Level -1 is a warning. Where a part is missing or can't be decoded, libjpeg makes pixels up: that
// is damage.
void onMessage(j_common_ptr info, int level) {
  if (level != -1) return;
  switch (info->err->msg_code) {
    case JWRN_JPEG_EOF:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
      onError(info);
      break;
    default:
      break;
  }
}

void onProgress(j_common_ptr info) {
  Job& job = *static_cast<Job*>(info->client_data);
  if (job.info.input_scan_number <= kMaxScans) return;
  job.failure = "a JPEG image of too many passes";
  leave(job);
}

// Four channels, as printers have them; Adobe's files hold them inverted.
void convertCmyk(Job& job) {
  const bool inverted = job.info.saw_Adobe_marker != 0;
  const auto at = [&](std::size_t i) {
    return inverted ? job.row[i] : static_cast<std::uint8_t>(255 - job.row[i]);
  };
  for (std::size_t x = 0; x < job.info.output_width; ++x) {
    const int black = at(4 * x + 3);
    for (std::size_t channel = 0; channel < 3; ++channel) {
      // In place: a pixel's result lies before all that is still to be read.
      job.row[3 * x + channel] = static_cast<std::uint8_t>(at(4 * x + channel) * black / 255);
    }
  }
}

void decode(Job& job, std::span<const std::byte> file) {
  if (setjmp(job.jump) != 0) return;  // NOLINT(cert-err52-cpp)
  jpeg_decompress_struct& info = job.info;
  jpeg_create_decompress(&info);
  info.progress = &job.progress;
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_read_header(&info, TRUE);
  job.image.size = {info.image_height, info.image_width};
  if (job.image.size.pixels() > job.maxPixels) {
    job.failure =
        fmt::format("an image of {}x{} pixels is too large", info.image_height, info.image_width);
    leave(job);
  }
  const bool cmyk = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
  info.out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
  jpeg_start_decompress(&info);
  job.image.planes.resize(job.image.view().bytes());
  job.row.resize(std::size_t{info.output_width} * info.output_components);
  while (info.output_scanline < info.output_height) {
    const std::int64_t y = info.output_scanline;
    JSAMPROW row = job.row.data();
    jpeg_read_scanlines(&info, &row, 1);
    if (cmyk) convertCmyk(job);
    setRow(job.image, y, job.row.data());
  }
  jpeg_finish_decompress(&info);
}

}  // namespace

Result<Image> decodeJpeg(std::span<const std::byte> file, std::int64_t maxPixels) {
  Job job;
  job.maxPixels = maxPixels;
  job.info.err = jpeg_std_error(&job.errors);
  job.info.client_data = &job;
  job.errors.error_exit = onError;
  job.errors.emit_message = onMessage;
  job.progress.progress_monitor = onProgress;
  decode(job, file);
  if (!job.failure.empty()) return {StatusCode::kIo, job.failure};
  return std::move(job.image);
}

}  // namespace colla::data
