#include "colla/status.h"

#include "base/status_code.h"

namespace colla {

std::string_view toString(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "ok";
    case StatusCode::kInvalidArgument:
      return "invalid argument";
    case StatusCode::kNotFound:
      return "not found";
    case StatusCode::kUnsupported:
      return "unsupported";
    case StatusCode::kCancelled:
      return "cancelled";
    case StatusCode::kPeerLost:
      return "peer lost";
    case StatusCode::kTimeout:
      return "timeout";
    case StatusCode::kRefused:
      return "refused";
    case StatusCode::kMismatch:
      return "mismatch";
    case StatusCode::kGroupBroken:
      return "group broken";
    case StatusCode::kIo:
      return "input/output";
    case StatusCode::kNoMemory:
      return "no memory";
    case StatusCode::kInternal:
      return "internal";
  }
  return "unknown";
}

std::optional<StatusCode> errorCode(std::uint8_t number) {
  switch (const auto code = static_cast<StatusCode>(number); code) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kNotFound:
    case StatusCode::kUnsupported:
    case StatusCode::kCancelled:
    case StatusCode::kPeerLost:
    case StatusCode::kTimeout:
    case StatusCode::kRefused:
    case StatusCode::kMismatch:
    case StatusCode::kGroupBroken:
    case StatusCode::kIo:
    case StatusCode::kNoMemory:
    case StatusCode::kInternal:
      return code;
    case StatusCode::kOk:
      break;
  }
  return std::nullopt;
}

Status Status::withContext(std::string_view context) const {
  if (ok()) return *this;
  std::string message(context);
  message += ": ";
  message += error_->message;
  return Status(error_->code, std::move(message), error_->peer);
}

std::string toString(const Status& status) {
  if (status.ok()) return "ok";
  std::string text(toString(status.code()));
  text += ": ";
  text += status.message();
  return text;
}

std::ostream& operator<<(std::ostream& out, const Status& status) {
  return out << toString(status);
}

}  // namespace colla
