// "did you mean …": the candidate with the smallest edit distance.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fovea {

// The nearest candidate, or "" where none is near (distance above a third of the word, at least 2).
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);
// `; did you mean "learning_rate"?` or, where none is near, `; known: a, b, c`.
std::string suggestion(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace fovea
