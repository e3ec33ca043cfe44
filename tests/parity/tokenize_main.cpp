// A stand-in for `fovea tokenize` with what the parity test needs: JSON strings in, one a line; JSON objects out.
//
//   tokenize_main tokenize --tokenizer DIR [--json-input] [--pair] [--no-special] < lines
//   tokenize_main train-bpe VOCAB_SIZE MIN_FREQUENCY OUT.json < lines      (special token "<|endoftext|>")
//   tokenize_main train-characters OUT.json < lines
//   tokenize_main time --tokenizer DIR FILE
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "fovea/base/error.h"
#include "fovea/io/files.h"
#include "fovea/text/tokenizer.h"
#include "fovea/text/training.h"

namespace {

using fovea::Tokenizer;
using nlohmann::json;

json as_json(const Tokenizer& tokenizer, const fovea::Encoding& e, bool fast_equal) {
  fovea::StreamDecoder stream(tokenizer, false);
  std::string streamed;
  for (const int64_t id : e.ids) streamed += stream.push(id);
  streamed += stream.flush();
  return {{"ids", e.ids},
          {"tokens", e.tokens},
          {"offsets", e.offsets},
          {"type_ids", e.type_ids},
          {"attention_mask", e.attention_mask},
          {"special_tokens_mask", e.special_tokens_mask},
          {"decoded", tokenizer.decode(e.ids, false)},
          {"streamed", streamed},
          {"fast_equal", fast_equal}};
}

int tokenize(const std::vector<std::string>& arguments) {
  const auto has = [&](const char* name) { return std::find(arguments.begin(), arguments.end(), name) != arguments.end(); };
  const auto folder = std::find(arguments.begin(), arguments.end(), "--tokenizer");
  const Tokenizer tokenizer = Tokenizer::load(*(folder + 1));
  fovea::EncodeOptions options;
  options.add_special_tokens = !has("--no-special");
  std::string line;
  while (std::getline(std::cin, line)) {
    const json text = has("--json-input") ? json::parse(line) : json(line);
    const fovea::Encoding e = text.is_array() ? tokenizer.encode_pair(text[0].get<std::string>(), text[1].get<std::string>(), options)
                                              : tokenizer.encode(text.get<std::string>(), options);
    const bool fast_equal = text.is_array() || tokenizer.ids(text.get<std::string>(), options) == e.ids;
    std::cout << as_json(tokenizer, e, fast_equal).dump() << "\n";
  }
  return 0;
}

std::vector<std::string> json_lines() {
  std::vector<std::string> out;
  std::string line;
  while (std::getline(std::cin, line)) out.push_back(json::parse(line).get<std::string>());
  return out;
}

int time(const std::string& folder, const std::string& file) {
  const auto now = [] { return std::chrono::steady_clock::now(); };
  const auto ms = [](auto from, auto to) { return std::chrono::duration<double, std::milli>(to - from).count(); };
  const auto start = now();
  const Tokenizer tokenizer = Tokenizer::load(folder);
  const auto loaded = now();
  const std::string text = fovea::read_text(file);
  std::printf("load %.1f ms\n", ms(start, loaded));
  for (int round = 0; round < 3; ++round) {
    const auto a = now();
    const auto ids = tokenizer.ids(text);
    const auto b = now();
    const auto encoding = tokenizer.encode(text);
    const auto c = now();
    const auto decoded = tokenizer.decode(ids);
    const auto d = now();
    std::printf("%zu ids; ids %.1f MB/s, encode %.1f MB/s, decode %.1f MB/s\n", ids.size(), text.size() / 1e3 / ms(a, b),
                text.size() / 1e3 / ms(b, c), text.size() / 1e3 / ms(c, d));
  }
  return 0;
}

int run(const std::vector<std::string>& arguments) {
  const std::string verb = arguments.at(0);
  if (verb == "tokenize") return tokenize(arguments);
  if (verb == "time") return time(arguments.at(2), arguments.at(3));
  const std::vector<std::string> texts = json_lines();
  if (verb == "train-bpe") {
    fovea::BpeTrainingOptions options{std::stoll(arguments.at(1)), std::stoll(arguments.at(2)), {"<|endoftext|>"}};
    fovea::train_bpe({texts.begin(), texts.end()}, options).save(arguments.at(3));
    return 0;
  }
  std::string all;
  for (const std::string& text : texts) all += text;
  fovea::train_characters(all).save(arguments.at(1));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const fovea::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
