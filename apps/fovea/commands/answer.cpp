// `fovea answer`: where in a text a question's answer stands.
// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "apps/fovea/commands/registry.h"
#include "apps/fovea/exit_codes.h"
#include "apps/fovea/machine.h"
#include "apps/fovea/model_folder.h"
#include "apps/fovea/output.h"
#include "apps/fovea/signals.h"
#include "apps/fovea/terminal.h"
#include "apps/fovea/text_input.h"
#include "fovea/base/check.h"

namespace fovea {
namespace {

struct Answer {
  std::string folder_path, question;
  AnswerOptions options;
  bool word_pieces = false, json = false;
  TextInput input;
  ThreadsOption threads;

  void declare(CommandLine& line) {
    line.option("-m,--model", "DIR", folder_path, "model folder", Need::kRequired);
    line.option("-q,--question", "TEXT", question, "what is asked of each text", Need::kRequired);
    input.declare(line);
    line.option("-k,--top-k", "N", options.top_k, "answers from a text, best first [1]");
    line.option("--longest", "N", options.longest, "tokens of an answer at most [15]");
    line.flag("--word-pieces", word_pieces, "answers may begin and end within a word, as Chinese and Japanese want");
    line.flag("--json", json, "one JSON array a text (docs/json.md)");
    threads.declare(line);
  }

  int run() {
    FOVEA_CHECK_CONFIG(options.top_k >= 1, "--top-k is ", options.top_k, ", wanted 1 or more");
    FOVEA_CHECK_CONFIG(options.longest >= 1, "--longest is ", options.longest, ", wanted 1 or more");
    check_text_is_there(question, "--question");
    options.whole_words = !word_pieces;
    threads.apply();
    const TextEncoder encoder = open_text_encoder(folder_path);
    FOVEA_CHECK_INPUT(encoder.model->head() == "question_answering", folder_path,
                      ": the model does not answer questions; its head is \"", encoder.model->head(), "\"");
    input.each(32, [&](const std::vector<TextLine>& lines) {
      answer(encoder, lines);
      output().flush();
    });
    return StopSignals::wanted() ? kExitInterrupted : 0;
  }

  void answer(const TextEncoder& encoder, const std::vector<TextLine>& lines) const {
    TextEncoder::Pairs asked;
    for (const auto& [text, source] : lines) asked.emplace_back(question, text);
    std::vector<std::vector<AnswerSpan>> answers;
    try {
      answers = encoder.answers(asked, options);
    } catch (const Error& error) {
      if (lines.size() == 1) throw Error(error.kind(), lines[0].source + ": " + error.what());
      for (const TextLine& line : lines) answer(encoder, {line});  // up to the one it is about
    }
    for (const auto& of_text : answers) show(of_text);
  }

  void show(const std::vector<AnswerSpan>& answers) const {
    if (json) {
      nlohmann::json list = nlohmann::json::array();
      for (const AnswerSpan& a : answers)
        list.push_back({{"text", a.text}, {"offset", {a.offset.first, a.offset.second}}, {"score", a.score}});
      return output().json(list);
    }
    for (const AnswerSpan& a : answers) output().line(detail::concat(fixed(a.score, 4), "\t", a.text));
  }
};

}  // namespace

void register_commands_answer(CommandsRegistry& registry) {
  registry.add("answer", command<Answer>(
                             "where in a text a question's answer stands",
                             "fovea answer --model models/bert-squad --question \"Who wrote it?\" \"Ada wrote it.\""));
}

}  // namespace fovea
