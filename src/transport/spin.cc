#include "transport/spin.h"

namespace colla::transport {
namespace {

// Of the thread alone: a parameter would have to pass through every collective to reach the wait.
thread_local bool inBackground = false;

}  // namespace

std::chrono::nanoseconds Spin::here() const { return inBackground ? background : caller; }

BackgroundThread::BackgroundThread() { inBackground = true; }
BackgroundThread::~BackgroundThread() { inBackground = false; }
bool BackgroundThread::isThis() { return inBackground; }

}  // namespace colla::transport
