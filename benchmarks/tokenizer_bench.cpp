// The fovea side of the tokenizer benchmarks: a process that waits for a word on standard input, tokenizes all texts of
// a file once and answers with the processor seconds that took. tools/bench_tokenizers.py drives it.
//
//   tokenizer_bench tokenizer.json texts.txt        texts end with a zero byte
//   ids        token ids only
//   encode     with offsets, spellings and masks
// SPDX-License-Identifier: Apache-2.0
#include <ctime>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/io/files.h"
#include "fovea/text/tokenizer.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: tokenizer_bench tokenizer.json texts.txt\n";
    return 2;
  }
  const fovea::Tokenizer tokenizer = fovea::Tokenizer::load(argv[1]);
  const std::string all = fovea::read_file(argv[2]);
  std::vector<std::string_view> texts;
  for (size_t begin = 0; begin < all.size();) {
    const size_t end = all.find('\0', begin);
    texts.push_back(std::string_view(all).substr(begin, end - begin));
    begin = end == std::string::npos ? all.size() : end + 1;
  }
  for (std::string word; std::getline(std::cin, word);) {
    size_t tokens = 0;
    const std::clock_t start = std::clock();  // of this one thread: other work on the machine does not count
    for (const std::string_view text : texts)
      tokens += word == "ids" ? tokenizer.ids(text).size() : tokenizer.encode(text).ids.size();
    std::cout << static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC << ' ' << tokens << std::endl;
  }
  return 0;
}
