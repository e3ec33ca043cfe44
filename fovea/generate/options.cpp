// SPDX-License-Identifier: Apache-2.0
#include "fovea/generate/options.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "fovea/base/check.h"
#include "fovea/base/nearest.h"
#include "fovea/base/utf8.h"

namespace fovea {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// NaN fails every comparison, so it is refused too.
void check_range(const char* name, double value, double least, double most, const char* wanted) {
  FOVEA_CHECK_CONFIG(value >= least && value <= most && std::isfinite(value), "generate: ", name, " is ", value,
                     ", wanted ", wanted);
}

}  // namespace

void GenerateOptions::visit(FieldVisitor& visitor) {
  visitor.field("max_new_tokens", max_new_tokens, "most tokens to write");
  visitor.field("min_new_tokens", min_new_tokens, "no end token before these");
  visitor.field("temperature", temperature, "0 takes the best token; above 0 draws one, the higher the wilder");
  visitor.field("top_k", top_k, "draw among the k best tokens; 0: all");
  visitor.field("top_p", top_p, "draw among the fewest best tokens that together reach this probability");
  visitor.field("min_p", min_p, "draw among tokens at least this fraction as likely as the best");
  visitor.field("repetition_penalty", repetition_penalty, "above 1 makes tokens that were used less likely");
  visitor.field("no_repeat_ngram", no_repeat_ngram, "no run of n tokens appears twice; 0: off");
  visitor.field("seed", seed, "the same seed draws the same tokens; row b uses seed + b; -1: another one each time");
  visitor.field("beams", beams, "above 1: beam search");
  visitor.field("results", results, "best beams returned for each prompt");
  visitor.field("length_penalty", length_penalty, "beam score = log-probability / length^penalty");
  visitor.field("beam_stop", beam_stop, "once `beams` beams have ended, a search ends: estimate, first, exact");
  visitor.field("end_ids", end_ids, "token ids that end a text");
  visitor.field("stop", stop, "texts that end a text; they are cut off");
  visitor.field("pad_id", pad_id, "token id that fills finished rows; -1: the first end id, or 0");
  visitor.field("start_id", start_id, "first token of the target (encoder-decoder)");
  visitor.field("forced_first", forced_first, "the first new token, whatever the model says; -1: its choice");
  visitor.field("forced_last", forced_last, "the token at the limit, if a text gets that far; -1: the model's choice");
}

void GenerateOptions::check() const {
  check_range("max_new_tokens", double(max_new_tokens), 1, kNoLimit, "1 or more");
  check_range("min_new_tokens", double(min_new_tokens), 0, double(max_new_tokens), "0 … max_new_tokens");
  check_range("temperature", temperature, 0, kNoLimit, "0 or more");
  check_range("top_k", double(top_k), 0, kNoLimit, "0 (all) or more");
  check_range("top_p", top_p, 0, 1, "0 … 1");
  check_range("min_p", min_p, 0, 1, "0 … 1");
  check_range("repetition_penalty", repetition_penalty, std::numeric_limits<double>::min(), kNoLimit, "more than 0");
  check_range("no_repeat_ngram", double(no_repeat_ngram), 0, kNoLimit, "0 (off) or more");
  check_range("seed", double(seed), -1, kNoLimit, "0 or more, or -1 for another one each time");
  check_range("beams", double(beams), 1, 4096, "1 … 4096");
  check_range("length_penalty", length_penalty, -kNoLimit, kNoLimit, "a finite number");
  FOVEA_CHECK_CONFIG(results >= 1 && results <= beams, "generate: results is ", results, ", wanted 1 … beams (", beams,
                     ")");
  FOVEA_CHECK_CONFIG(beams == 1 || temperature == 0, "generate: beams is ", beams, " and temperature ", temperature,
                     "; beam search takes the best and never draws: wanted temperature 0");
  const std::vector<std::string> beam_stops{"estimate", "first", "exact"};
  FOVEA_CHECK_CONFIG(std::count(beam_stops.begin(), beam_stops.end(), beam_stop) == 1, "generate: beam_stop is \"",
                     beam_stop, "\"", suggestion(beam_stop, beam_stops));
  for (const std::string& text : stop) {
    FOVEA_CHECK_CONFIG(!text.empty(), "generate: stop holds an empty text");
    check_utf8(text, "generate: stop");
  }
}

}  // namespace fovea
