#include "python/open_exchange.h"

#include <fmt/format.h>

namespace colla::python {

Result<std::shared_ptr<OpenExchange>> OpenExchange::create(std::shared_ptr<Job> job,
                                                           const named::Options& options) {
  std::shared_ptr<OpenExchange> made(new OpenExchange(std::move(job)));
  const MutexLock lock(made->mutex_);
  COLLA_TRY_ASSIGN(made->exchange_, named::NamedExchange::create(*made->job_, options));
  return made;
}

void OpenExchange::close() {
  std::shared_ptr<named::NamedExchange> last;
  const MutexLock lock(mutex_);
  last = std::move(exchange_);
}

Result<std::shared_ptr<named::NamedExchange>> OpenExchange::get() const {
  const MutexLock lock(mutex_);
  if (exchange_ == nullptr) return {StatusCode::kCancelled, "this exchange was shut down"};
  return exchange_;
}

std::vector<std::string> OpenExchange::namesOf(named::Kind kind, const std::string& name, int set,
                                               std::size_t parts) {
  std::string whole = fmt::format("{}.{}", toString(kind), name);
  if (name.empty()) {
    const MutexLock lock(mutex_);
    whole += fmt::format("noname.{}.{}", joins_, counts_[{kind, set}]++);
  }
  if (parts <= 1) return {whole};
  std::vector<std::string> names;
  for (std::size_t i = 1; i <= parts; ++i)
    names.push_back(fmt::format("{}.{}of{}", whole, i, parts));
  return names;
}

Status OpenExchange::join(std::function<void(const Status& status, int lastRank)> done) {
  COLLA_TRY_ASSIGN(const auto exchange, get());
  return exchange->join([this, done = std::move(done)](const Status& status, int lastRank) {
    {
      const MutexLock lock(mutex_);
      ++joins_;
      counts_.clear();
    }
    done(status, lastRank);
  });
}

}  // namespace colla::python
