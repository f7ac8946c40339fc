// A queue of requests that are under way, linked through the requests themselves. A request is
// in one list at most. Guarded by the messenger's lock.
#pragma once

#include "transport/transport.h"

namespace colla::transport {

class RequestList {
 public:
  bool empty() const { return first_ == nullptr; }
  Request* first() const { return first_; }
  static Request* next(const Request& request) { return request.next_; }

  // Takes `request` out of the list that it is in.
  void pushBack(Request& request) {
    remove(request);
    request.list_ = this;
    request.previous_ = last_;
    (last_ != nullptr ? last_->next_ : first_) = &request;
    last_ = &request;
  }
  static void remove(Request& request) {
    if (RequestList* list = request.list_) {
      (request.previous_ != nullptr ? request.previous_->next_ : list->first_) = request.next_;
      (request.next_ != nullptr ? request.next_->previous_ : list->last_) = request.previous_;
    }
    request.list_ = nullptr;
    request.previous_ = nullptr;
    request.next_ = nullptr;
  }

 private:
  Request* first_ = nullptr;
  Request* last_ = nullptr;
};

}  // namespace colla::transport
