#include "models/predictions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>

#include "checkpoint/source.h"
#include "colla/error.h"
#include "data/batch_check.h"
#include "models/predicts.h"
#include "models/weights.h"
#include "train/tensors.h"

namespace colla::models {
namespace {

// Shortest text that reads back as the same number. JSON has no infinities.
template <typename T>
std::string textOf(T value, bool json) {
  if constexpr (std::is_floating_point_v<T>) {
    if (json && !std::isfinite(value)) return "null";
  }
  return fmt::format("{}", value);
}

std::vector<std::string> textsOf(const torch::Tensor& values, bool json) {
  std::vector<std::string> texts;
  const torch::Tensor flat = values.contiguous().flatten();
  texts.reserve(static_cast<std::size_t>(flat.numel()));
  for (std::int64_t i = 0; i < flat.numel(); ++i) {
    switch (flat.scalar_type()) {
      case torch::kInt64:
        texts.push_back(textOf(flat.const_data_ptr<std::int64_t>()[i], json));
        break;
      case torch::kFloat64:
        texts.push_back(textOf(flat.const_data_ptr<double>()[i], json));
        break;
      default:
        texts.push_back(textOf(flat[i].item<float>(), json));
    }
  }
  return texts;
}

std::string quotedForCsv(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted;
  for (const char c : text) {
    if (c == '"') quoted.push_back('"');
    quoted.push_back(c);
  }
  return fmt::format("\"{}\"", quoted);
}

// One column of one batch: texts of each sample, one or several.
struct Cells {
  std::string name;
  bool several = false;
  bool words = false;  // Not numbers.
  std::size_t each = 1;
  std::vector<std::string> texts;
};

Cells cellsOf(const Column& column, bool json) {
  Cells cells{column.name, false, false, 1, {}};
  if (const auto* texts = std::get_if<std::vector<std::string>>(&column.values)) {
    cells.words = true;
    cells.texts = *texts;
    return cells;
  }
  const auto& tensor = std::get<torch::Tensor>(column.values);
  cells.several = tensor.dim() > 1;
  if (cells.several) cells.each = static_cast<std::size_t>(tensor[0].numel());
  cells.texts = textsOf(tensor, json);
  return cells;
}

class Lines {
 public:
  Lines(PredictionFormat format, std::FILE* out)
      : json_(format == PredictionFormat::kJsonLines), out_(out) {}

  Status write(std::int64_t first, const std::vector<Column>& columns) {
    std::vector<Cells> all;
    for (const Column& column : columns) all.push_back(cellsOf(column, json_));
    std::string text;
    if (first == 0 && !json_) text = header(all);
    const std::size_t samples = all.front().texts.size() / all.front().each;
    for (std::size_t i = 0; i < samples; ++i) {
      const std::int64_t number = first + static_cast<std::int64_t>(i);
      text += json_ ? jsonLine(number, all, i) : csvLine(number, all, i);
    }
    if (std::fwrite(text.data(), 1, text.size(), out_) != text.size() || std::fflush(out_) != 0) {
      return {StatusCode::kIo, fmt::format("cannot write predictions: {}", std::strerror(errno))};
    }
    return {};
  }

 private:
  static std::string header(const std::vector<Cells>& all) {
    std::string text = "sample";
    for (const Cells& cells : all) {
      for (std::size_t k = 0; k < cells.each; ++k) {
        text +=
            cells.several ? fmt::format(",{}_{}", cells.name, k) : fmt::format(",{}", cells.name);
      }
    }
    text.push_back('\n');
    return text;
  }

  static std::string csvLine(std::int64_t number, const std::vector<Cells>& all, std::size_t i) {
    std::string text = std::to_string(number);
    for (const Cells& cells : all) {
      for (std::size_t k = 0; k < cells.each; ++k) {
        text.push_back(',');
        text += quotedForCsv(cells.texts[i * cells.each + k]);
      }
    }
    text.push_back('\n');
    return text;
  }

  static std::string jsonLine(std::int64_t number, const std::vector<Cells>& all, std::size_t i) {
    std::string text = fmt::format("{{\"sample\": {}", number);
    for (const Cells& cells : all) {
      text += fmt::format(", \"{}\": {}", cells.name, cells.several ? "[" : "");
      for (std::size_t k = 0; k < cells.each; ++k) {
        const std::string& value = cells.texts[i * cells.each + k];
        if (k > 0) text += ", ";
        text += cells.words ? nlohmann::json(value).dump(-1, ' ', false,
                                                         nlohmann::json::error_handler_t::replace)
                            : value;
      }
      if (cells.several) text.push_back(']');
    }
    text += "}\n";
    return text;
  }

  const bool json_;
  std::FILE* const out_;
};

Status restore(const Task& task, const std::string& name, Model& model) {
  COLLA_TRY_ASSIGN(const auto source, checkpoint::Source::open(name));
  const checkpoint::Loaded* const loaded = source.checkpoint();
  if (loaded == nullptr) {
    return {StatusCode::kInvalidArgument,
            fmt::format("{} is a single file, not a checkpoint", name)};
  }
  const checkpoint::Manifest& manifest = loaded->manifest();
  if (manifest.model != task.name || manifest.modelOptions != task.options) {
    return {StatusCode::kMismatch,
            fmt::format("{} is of the model {} ({}), not of {} ({})", loaded->path(),
                        manifest.model, manifest.modelOptions, task.name, task.options)};
  }
  loadTensors(model.module(), loaded->model(), loaded->path());
  return {};
}

}  // namespace

Status writePredictions(const Task& task, const PredictionOptions& options, std::FILE* out) {
  COLLA_TRY_ASSIGN(const auto data, task.data(options.part));
  try {
    const torch::NoGradGuard noGrad;
    const std::unique_ptr<Model> model = task.model();
    auto* const predicts = dynamic_cast<Predicts*>(model.get());
    if (predicts == nullptr) {
      return {StatusCode::kUnsupported, fmt::format("{} makes no predictions", task.name)};
    }
    if (!options.checkpoint.empty()) COLLA_TRY(restore(task, options.checkpoint, *model));
    model->module().eval();
    Lines lines(options.format, out);
    const data::BatchCheck check(data);
    Random random(0);  // A test part makes no random choices; a training part the same ones always.
    for (std::int64_t first = 0; first < data->size(); first += options.batch) {
      std::vector<std::int64_t> indices(
          static_cast<std::size_t>(std::min(options.batch, data->size() - first)));
      std::iota(indices.begin(), indices.end(), first);
      COLLA_TRY_ASSIGN(const Batch batch, data->read(indices, random));
      COLLA_TRY(check.check(indices, batch));
      COLLA_TRY(lines.write(first, predicts->predict(train::asTensors(batch))));
    }
    return {};
  } catch (const Error& error) {
    return error.status();
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    return {StatusCode::kInternal, "libtorch: " + text.substr(0, text.find('\n'))};
  }
}

}  // namespace colla::models
