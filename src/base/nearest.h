// The word that a user may have meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace colla {

// "; did you mean --lr?": the end of a message about `word`, which is none of `words`. Empty if
// none of them is near: one that begins with it, or has at most a third of its letters wrong.
// Dashes and underscores do not count.
std::string didYouMean(std::string_view word, const std::vector<std::string>& words);

}  // namespace colla
