#include "train/user_code.h"

#include <fmt/format.h>

#include <new>

namespace colla::train {

// libtorch adds the functions that it went through, on lines of their own.
Status currentError() {
  const auto firstLine = [](const std::string& text) { return text.substr(0, text.find('\n')); };
  try {
    throw;
  } catch (const Error& error) {
    return error.status();
  } catch (const c10::Error& error) {
    return {StatusCode::kInternal, "libtorch: " + firstLine(error.what_without_backtrace())};
  } catch (const std::bad_alloc&) {
    return {StatusCode::kNoMemory, "no memory left"};
  } catch (const std::exception& error) {
    return {StatusCode::kInternal, firstLine(error.what())};
  } catch (...) {
    return {StatusCode::kInternal, "something was thrown that is not a std::exception"};
  }
}

bool isOfOthers(const Status& status) {
  return status.code() >= StatusCode::kPeerLost && status.code() <= StatusCode::kGroupBroken;
}

Result<std::shared_ptr<const Dataset>> openPart(const Task& task, Part part) {
  auto opened = callUser([&] { return fmt::format("the task's data, {} part", toString(part)); },
                         [&] { return task.data(part); });
  if (opened.ok() && *opened == nullptr) {
    return {
        StatusCode::kInvalidArgument,
        fmt::format("the task's data gave a null pointer for the {} part: return a data set, or "
                    "kNotFound where there is no such part",
                    toString(part))};
  }
  if (opened.ok() && (*opened)->size() < 1) {
    return {StatusCode::kInvalidArgument,
            fmt::format("data set \"{}\": the {} part has no samples: its size() is {}",
                        (*opened)->describe(), toString(part), (*opened)->size())};
  }
  return opened;
}

}  // namespace colla::train
