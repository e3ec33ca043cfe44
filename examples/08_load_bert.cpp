// Models that read: a folder as Hugging Face's packages keep it gives sentence vectors, or what stands behind a mask.
// The folder is made here, with random weights; with a real one, such as `tools/data/minilm` fetches, the same lines
// say which sentences mean the same:
//
//   08_load_bert .cache/data/minilm
//
// SPDX-License-Identifier: Apache-2.0
#include <fovea/fovea.h>

#include "show.h"

using namespace fovea;

namespace {

const std::vector<std::string> kSentences{"That is a happy person", "That is a very happy person",
                                          "That is a happy dog", "Today is a sunny day"};

// A tiny BERT over letters, and its tokenizer.
void make_folder(const std::filesystem::path& folder, const std::string& head) {
  std::string text;
  for (const auto& sentence : kSentences) text += sentence;
  const Tokenizer tokenizer = train_characters(text, {.special_tokens = {"[PAD]", "[MASK]"}});
  at::manual_seed(1);
  const Bert model(BertConfig{
      .head = head, .vocab_size = tokenizer.end_id(), .positions = 64, .width = 32, .layers = 2, .heads = 4});
  TextEncoder{model.ptr(), tokenizer, "mean", /*normalize=*/true}.save(folder);
}

}  // namespace

int main(int count, char** arguments) {
  const std::filesystem::path made = std::filesystem::temp_directory_path() / "fovea_bert_example";
  make_folder(made / "encoder", "none");
  make_folder(made / "words", "masked_lm");

  const auto bert = load_pretrained(count > 1 ? arguments[1] : made / "encoder");
  const Tensor vectors = bert.embed(kSentences);  // [4, C]
  const Tensor similar = at::matmul(vectors, vectors.t());
  show("how similar the sentences are", similar, {"person", "very", "dog", "day"});
  claim(difference(similar.diagonal(), at::ones({4})) < 1e-5,
        "the folder says that vectors have length 1, so they have");
  claim(difference(bert.embed({kSentences[2]})[0], vectors[2]) < 1e-5, "a sentence does not depend on its neighbours");
  if (count > 1)
    claim(similar[0].argsort(-1, true).equal(at::tensor({0, 1, 2, 3})), "person, very, dog, day: in that order");

  const auto words = load_pretrained(made / "words");
  const auto filled = words.fill_mask("That is a h[MASK]ppy dog", 3);
  for (const auto& [mask, token, id, score] : filled)
    std::printf("mask %ld: \"%s\" with probability %.3f\n", long(mask), token.c_str(), double(score));
  claim(filled.size() == 3 && filled[0].score >= filled[2].score, "three guesses, the best first");
  std::filesystem::remove_all(made);
}
