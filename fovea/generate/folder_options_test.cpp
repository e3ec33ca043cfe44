// A folder's generation_config.json, and Seq2Seq on top of it.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/generate/folder_options.h"

#include <nlohmann/json.hpp>

#include "fovea/generate/causal_lm.h"
#include "fovea/generate/seq2seq.h"
#include "fovea/io/json.h"
#include "fovea/models/bart.h"
#include "fovea/models/gpt2.h"
#include "fovea/models/pretrained.h"
#include "fovea/text/training.h"
#include "tests/io_support.h"

namespace fovea {
namespace {

using testing_support::ScratchTest;

struct FolderOptions : ScratchTest {
  Tokenizer tokenizer = train_characters("abcdef", {.special_tokens = {"<pad>", "<s>", "</s>"}});

  FolderOptions() {
    at::manual_seed(7);
    Bart bart(BartConfig{.vocab_size = tokenizer.end_id(),
                         .positions = 32,
                         .width = 8,
                         .encoder_layers = 1,
                         .decoder_layers = 1,
                         .encoder_heads = 2,
                         .decoder_heads = 2,
                         .encoder_hidden = 12,
                         .decoder_hidden = 12,
                         .init_std = 0.5,
                         .roles = {.bos = 2, .eos = {3}, .pad = 1, .decoder_start = 3},
                         .forced_eos = 3});
    save_pretrained(*bart, at("bart"));
    tokenizer.save(at("bart"));
  }
  void generation(const nlohmann::json& fields) const { put("bart/generation_config.json", dump_json(fields)); }
  GenerateOptions options() const { return Seq2Seq::load(at("bart")).defaults; }
};

TEST_F(FolderOptions, ConfigJsonNamesTheTokensWhereNothingElseIsSaid) {
  const auto o = options();
  EXPECT_EQ(o.end_ids, std::vector<int64_t>{3});
  EXPECT_EQ(o.pad_id, 1);
  EXPECT_EQ(o.start_id, 3);
  EXPECT_EQ(o.forced_first, -1);
  EXPECT_EQ(o.forced_last, 3);
  EXPECT_EQ(o.beams, 1);
  EXPECT_EQ(o.temperature, 0);
}

TEST_F(FolderOptions, GenerationConfigIsRead) {
  generation({{"max_length", 21},
              {"min_length", 6},
              {"num_beams", 4},
              {"length_penalty", 2.0},
              {"early_stopping", true},
              {"no_repeat_ngram_size", 3},
              {"forced_bos_token_id", 2},
              {"eos_token_id", {3, 4}},
              {"repetition_penalty", 1.5},
              {"do_sample", false},
              {"temperature", 0.3},
              {"guidance_scale", nullptr},
              {"num_beam_groups", 1}});
  const auto o = options();
  EXPECT_EQ(o.max_new_tokens, 20);  // a length counts the token that opens the target
  EXPECT_EQ(o.min_new_tokens, 5);
  EXPECT_EQ(o.beams, 4);
  EXPECT_EQ(o.length_penalty, 2);
  EXPECT_EQ(o.beam_stop, "first");
  EXPECT_EQ(o.no_repeat_ngram, 3);
  EXPECT_EQ(o.repetition_penalty, 1.5);
  EXPECT_EQ(o.forced_first, 2);
  EXPECT_EQ(o.forced_last, -1);  // generation_config.json does not force it
  EXPECT_EQ(o.end_ids, (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(o.temperature, 0);  // read for drawing only
  generation(
      {{"do_sample", true}, {"top_p", 0.9}, {"max_length", 30}, {"max_new_tokens", 7}, {"early_stopping", "never"}});
  const auto drawn = options();
  EXPECT_EQ(drawn.temperature, 1);
  EXPECT_EQ(drawn.top_k, 50);
  EXPECT_EQ(drawn.top_p, 0.9);
  EXPECT_EQ(drawn.max_new_tokens, 7);
  EXPECT_EQ(drawn.beam_stop, "exact");
}

TEST_F(FolderOptions, WhatIsNotBuiltOrOutOfRangeIsAnError) {
  const auto says = [&](const nlohmann::json& fields, const char* part) {
    generation(fields);
    const auto message = testing_support::error_of(ErrorKind::kInput, [&] { options(); });
    EXPECT_HAS(message, part);
    EXPECT_HAS(message, "generation_config.json");
  };
  says({{"num_beam_groups", 2}}, "\"num_beam_groups\": 2 is not supported");
  says({{"bad_words_ids", {{3}}}}, "bad_words_ids");
  says({{"num_beams", 0}}, "beams is 0");
  says({{"num_beams", "four"}}, "wanted an integer");
  says({{"do_sample", true}, {"num_beams", 2}}, "beam search takes the best");
  says(nlohmann::json::array(), "wanted an object");
}

TEST_F(FolderOptions, Seq2SeqWritesAsTheFolderSays) {
  generation({{"max_length", 9}, {"num_beams", 2}, {"forced_bos_token_id", 5}, {"forced_eos_token_id", 3}});
  const Seq2Seq bart = Seq2Seq::load(at("bart"));
  const std::vector<std::string> sources{"abc", "f", "fedcba"};
  const auto together = bart.generate_all(sources);
  ASSERT_EQ(together.size(), 3u);
  const std::string opens = tokenizer.decode({5});
  for (size_t i = 0; i < sources.size(); ++i) {
    EXPECT_EQ(together[i], bart.generate(sources[i]));
    EXPECT_TRUE(together[i].starts_with(opens)) << together[i];
    EXPECT_LE(together[i].size(), 7u);
  }
  GenerateOptions options = bart.defaults;
  options.forced_first = 6;
  EXPECT_TRUE(bart.generate("abc", options).starts_with(tokenizer.decode({6})));
  bart.save(at("again"));
  EXPECT_EQ(Seq2Seq::load(at("again")).generate("abc", bart.defaults), together[0]);
}

TEST_F(FolderOptions, ADecoderIsNoSeq2Seq) {
  const Gpt2 gpt(Gpt2Config{.vocab_size = tokenizer.end_id(), .positions = 16, .width = 8, .layers = 1, .heads = 2});
  save_pretrained(*gpt, at("gpt"));
  tokenizer.save(at("gpt"));
  EXPECT_HAS(testing_support::error_of(ErrorKind::kInput, [&] { Seq2Seq::load(at("gpt")); }), "has no encoder");
  put("gpt/generation_config.json", R"({"max_new_tokens": 3, "max_length": 99, "forced_bos_token_id": 4})");
  const CausalLM writer = CausalLM::load(at("gpt"));
  EXPECT_EQ(writer.defaults.max_new_tokens, 3);
  EXPECT_EQ(writer.defaults.forced_first, -1);  // of encoder-decoders only
  EXPECT_LE(writer.generate("abc").size(), 3u);
}

}  // namespace
}  // namespace fovea
