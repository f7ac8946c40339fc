// What a worker or another server could send to a parameter server.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "ps/declaration.h"
#include "ps/order.h"
#include "ps/pushed_rows.h"
#include "ps/squares.h"
#include "ps/wire.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace colla::ps;
  const auto bytes = std::as_bytes(std::span(data, size));
  static_cast<void>(decodeFinish(bytes, 3));
  static_cast<void>(decodeOrder(bytes, 4, 3));
  static_cast<void>(decodeStatistics(bytes));
  if (const auto squares = Squares::decode(bytes); squares.ok()) squares->sums();
  if (const auto rows = decodeRows(bytes, 2, 100, 3); rows.ok()) {
    for (const auto& leaf : *rows) {
      if (leaf.values.size() != leaf.rows.size() * 3) std::abort();
      for (const std::int64_t row : leaf.rows) {
        if (row < 0 || row >= 100) std::abort();
      }
    }
  }
  if (size >= kAskBytes) static_cast<void>(decodeAsk(bytes));
  if (size >= kAnswerBytes) static_cast<void>(decodeAnswer(bytes));
  if (const auto declaration = decodeDeclaration(bytes); declaration.ok()) {
    if (!decodeDeclaration(encode(*declaration)).ok()) std::abort();
    static_cast<void>(validate(declaration->policy));
  }
  return 0;
}
