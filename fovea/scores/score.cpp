// SPDX-License-Identifier: Apache-2.0
#include "fovea/scores/score.h"

#include <charconv>

#include "fovea/scores/registry.h"

namespace fovea {

void register_all_scores(ScoresRegistry& registry);

const ScoresRegistry& scores_registry() {
  static const ScoresRegistry registry = [] {
    ScoresRegistry r;
    register_all_scores(r);
    return r;
  }();
  return registry;
}

Score Score::term(std::string name, std::vector<int64_t> numbers, std::vector<at::Tensor> data) {
  for (size_t i = 0; i < data.size(); ++i)
    FOVEA_CHECK_KIND(ErrorKind::kArgument, data[i].defined() && data[i].is_floating_point(), "scores::", name, ": argument ", i,
                     " must be a floating tensor");
  return Score({.name = std::move(name), .numbers = std::move(numbers), .data = std::move(data)});
}

Score operator+(const Score& first, const Score& then) {
  Score out = first;
  out.terms_.insert(out.terms_.end(), then.terms_.begin(), then.terms_.end());
  return out;
}

Score scores::detail::user_score(UserScorePtr user, const Learned& learned) {
  Score::Term term{.name = "rule", .user = std::move(user)};
  for (const auto& [name, tensor] : learned) {
    FOVEA_CHECK_KIND(ErrorKind::kArgument, tensor.defined() && tensor.is_floating_point() && tensor.dim() <= 4, "scores::add: learned \"", name,
                     "\" must be a floating tensor of at most four axes");
    term.data.push_back(tensor);
  }
  return Score(std::move(term));
}

// slopes(;1)+bucket_table(1,128;1)
std::string Score::encode(std::vector<at::Tensor>& data) const {
  std::string out;
  for (const auto& term : terms_) {
    FOVEA_CHECK_KIND(ErrorKind::kArgument, term->user == nullptr,
                     "Score::encode: a user's own rule cannot be carried by an operator's schema; call fovea::attention from C++");
    out += (out.empty() ? "" : "+") + term->name + '(';
    for (size_t i = 0; i < term->numbers.size(); ++i) out += (i ? "," : "") + std::to_string(term->numbers[i]);
    out += ';' + std::to_string(term->data.size()) + ')';
    data.insert(data.end(), term->data.begin(), term->data.end());
  }
  return out;
}

Score Score::decode(std::string_view text, at::TensorList data) {
  Score out;
  size_t at = 0, used = 0;
  const auto check = [&](bool good, const char* what) {
    FOVEA_CHECK_KIND(ErrorKind::kArgument, good, "Score::decode: ", what, " at character ", at, " of \"", text, "\" with ", data.size(), " tensors");
  };
  const auto number = [&] {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), value);
    check(error == std::errc(), "wanted a number");
    at = size_t(end - text.data());
    return value;
  };
  const auto take = [&](char c) { return at < text.size() && text[at] == c ? (++at, true) : false; };
  while (at < text.size()) {
    const size_t open = text.find('(', at);
    check(open != std::string_view::npos, "wanted name(");
    const std::string name(text.substr(at, open - at));
    const ScoreEntry& entry = scores_registry().at(name);
    at = open + 1;
    std::vector<int64_t> numbers;
    while (!take(';')) {
      numbers.push_back(number());
      take(',');
    }
    const int64_t count = number();
    check(take(')') && count >= 0 && used + size_t(count) <= data.size(), "wanted ) and enough tensors");
    check(entry.least_tensors <= size_t(count) && size_t(count) <= entry.most_tensors, "wanted another number of tensors");
    out = out + Score::term(name, std::move(numbers), std::vector<at::Tensor>(data.begin() + used, data.begin() + used + count));
    used += size_t(count);
    check(at == text.size() || take('+'), "wanted +");
  }
  check(used == data.size(), "tensors left over");
  return out;
}

}  // namespace fovea
