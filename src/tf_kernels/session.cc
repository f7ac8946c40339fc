#include "tf_kernels/session.h"

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace colla::tf_kernels {
namespace {

struct Session {
  // Held alone to change the table, so that nobody is in one that is taken away.
  absl::Mutex mutex;
  const CollaOperationsTable* table ABSL_GUARDED_BY(mutex) = nullptr;
};

Session& session() {
  static Session* const one = new Session;  // Threads of TensorFlow may outlive main().
  return *one;
}

absl::Status uninitialized() {
  return absl::FailedPreconditionError("colla has not been initialized: call init() first");
}

template <typename Call>
absl::Status inSession(const Call& call) {
  const absl::ReaderMutexLock lock(&session().mutex);
  if (session().table == nullptr) return uninitialized();
  CollaReason reason = {};
  const std::int32_t code = call(*session().table, &reason);
  return code == 0 ? absl::OkStatus() : statusOf(code, reason.text);
}

}  // namespace

absl::Status statusOf(std::int32_t code, const std::string& message) {
  switch (code) {
    case 0:
      return absl::OkStatus();
    case COLLA_INVALID_ARGUMENT:
      return absl::InvalidArgumentError(message);
    case COLLA_UNSUPPORTED:
      return absl::UnimplementedError(message);
    case COLLA_MISMATCH:
      return absl::FailedPreconditionError(message);
    case COLLA_NO_MEMORY:
      return absl::ResourceExhaustedError(message);
    // colla.tensorflow.elastic knows by the first word that the job has failed, and not TensorFlow.
    case COLLA_CANCELLED:
      return absl::AbortedError("colla: " + message);
    default:
      return absl::UnknownError("colla: " + message);
  }
}

absl::Status submit(const CollaOperation& operation) {
  return inSession([&](const CollaOperationsTable& table, CollaReason* reason) {
    return table.submit(table.exchange, &operation, reason);
  });
}

absl::Status join(void* caller, void (*done)(void*, std::int32_t, const char*, CollaNumbers)) {
  return inSession([&](const CollaOperationsTable& table, CollaReason* reason) {
    return table.join(table.exchange, caller, done, reason);
  });
}

absl::StatusOr<std::int32_t> number(std::int32_t what, std::int32_t set) {
  const absl::ReaderMutexLock lock(&session().mutex);
  if (session().table == nullptr) return uninitialized();
  return session().table->number(session().table->exchange, what, set);
}

// For colla.tensorflow, which keeps the table's capsule until it has called this again with a null
// pointer.
extern "C" __attribute__((visibility("default"))) void colla_tensorflow_use(
    const CollaOperationsTable* table) {
  const absl::WriterMutexLock lock(&session().mutex);
  session().table = table;
}

}  // namespace colla::tf_kernels
