// `fovea completion SHELL`: a completion script made from the options that every verb declares.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "apps/fovea/commands/registry.h"
#include "apps/fovea/output.h"
#include "fovea/base/check.h"
#include "fovea/base/nearest.h"

namespace fovea {
namespace {

struct Verb {
  std::string name, summary;
  std::vector<OptionInfo> options;
};

std::vector<Verb> all_verbs() {
  std::vector<Verb> out;
  for (const auto& [name, entry] : commands_registry().entries()) {
    CommandLine line(name, entry.summary, entry.example);
    const auto unused = entry.declare(line);
    out.push_back({name, entry.summary, line.options()});
  }
  return out;
}

// What a value is, for a shell.
enum class Value { kNone, kFolder, kFile, kChoice, kFree };

Value value_of(const OptionInfo& option) {
  if (option.kind.empty()) return Value::kNone;
  if (!option.choices().empty()) return Value::kChoice;
  const auto holds = [&](const char* word) { return option.kind.find(word) != std::string::npos; };
  if (holds("FILE") || holds("CONFIG")) return Value::kFile;
  return holds("DIR") ? Value::kFolder : Value::kFree;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

std::string words(const OptionInfo& option) { return replaced(option.kind, "|", " "); }

std::string bash_value(const OptionInfo& option) {
  switch (value_of(option)) {
    case Value::kFolder:
      return "compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- \"$current\")";
    case Value::kFile:
      return "compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- \"$current\")";
    case Value::kChoice:
      return "mapfile -t COMPREPLY < <(compgen -W '" + words(option) + "' -- \"$current\")";
    default:
      return ":";  // nothing to offer
  }
}

// One branch a verb: values by the option before the cursor, then names, then what stands without an option.
std::string bash_verb(const Verb& verb) {
  std::string values, names, rest = ":";
  for (const OptionInfo& option : verb.options) {
    if (option.positional) {
      if (rest == ":") rest = bash_value(option);
      continue;
    }
    for (const std::string& name : option.names) names += (names.empty() ? "" : " ") + name;
    if (option.kind.empty()) continue;
    std::string pattern;
    for (const std::string& name : option.names) pattern += (pattern.empty() ? "" : "|") + name;
    values += "        " + pattern + ") " + bash_value(option) + "; return ;;\n";
  }
  return "    " + verb.name + ")\n      case $previous in\n" + values + "      esac\n" +
         "      if [[ $current == -* ]]; then mapfile -t COMPREPLY < <(compgen -W '" + names +
         "' -- \"$current\"); else " + rest + "; fi ;;\n";
}

std::string bash(const std::vector<Verb>& verbs) {
  std::string names, branches;
  for (const Verb& verb : verbs) {
    names += verb.name + " ";
    branches += bash_verb(verb);
  }
  return "# bash completion for fovea: source <(fovea completion bash)\n"
         "_fovea() {\n"
         "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
         "  COMPREPLY=()\n"
         "  if ((COMP_CWORD == 1)); then\n"
         "    mapfile -t COMPREPLY < <(compgen -W '" +
         names +
         "--help --version' -- \"$current\")\n"
         "    return\n"
         "  fi\n"
         "  case ${COMP_WORDS[1]} in\n" +
         branches +
         "  esac\n"
         "}\n"
         "complete -F _fovea fovea\n";
}

std::string quoted(const std::string& text) { return "'" + replaced(text, "'", "'\\''") + "'"; }

std::string zsh_action(const OptionInfo& option) {
  switch (value_of(option)) {
    case Value::kFolder:
      return "_files -/";
    case Value::kFile:
      return "_files";
    case Value::kChoice:
      return "(" + words(option) + ")";
    default:
      return " ";
  }
}

// _arguments reads ':' and brackets as its own.
std::string zsh_text(std::string text) {
  for (const char* special : {":", "[", "]"}) text = replaced(text, special, std::string("\\") + special);
  return text;
}

std::string zsh_verb(const Verb& verb) {
  std::string specs;
  for (const OptionInfo& option : verb.options) {
    const std::string value = option.kind.empty() ? "" : ":" + zsh_text(option.kind) + ":" + zsh_action(option);
    if (option.positional) {
      specs += " \\\n        " + quoted((option.many ? "*" : "") + value);
    } else {
      for (const std::string& name : option.names)
        specs += " \\\n        " + quoted("*" + name + "[" + zsh_text(option.help) + "]" + value);
    }
  }
  return "    " + verb.name + ")\n      _arguments" + specs + " ;;\n";
}

std::string zsh(const std::vector<Verb>& verbs) {
  std::string names, branches;
  for (const Verb& verb : verbs) {
    names += " " + quoted(verb.name + ":" + zsh_text(verb.summary));
    branches += zsh_verb(verb);
  }
  return "#compdef fovea\n"
         "# zsh completion for fovea: source <(fovea completion zsh), or save as _fovea in a folder of $fpath\n"
         "_fovea() {\n"
         "  local -a verbs=(" +
         names +
         ")\n"
         "  if ((CURRENT == 2)); then _describe verb verbs; return; fi\n"
         "  shift words; ((CURRENT--))\n"
         "  case $words[1] in\n" +
         branches +
         "  esac\n"
         "}\n"
         "if [[ $funcstack[1] == _fovea ]]; then _fovea \"$@\"; else compdef _fovea fovea; fi\n";
}

std::string fish(const std::vector<Verb>& verbs) {
  std::string out = "# fish completion for fovea: fovea completion fish | source\ncomplete -c fovea -f\n";
  for (const Verb& verb : verbs) {
    out += "complete -c fovea -n __fish_use_subcommand -a " + verb.name + " -d " + quoted(verb.summary) + "\n";
    const std::string start = "complete -c fovea -n '__fish_seen_subcommand_from " + verb.name + "'";
    for (const OptionInfo& option : verb.options) {
      std::string line = start;
      if (!option.positional) {
        for (const std::string& name : option.names)
          line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
        line += " -d " + quoted(option.help);
        if (!option.kind.empty()) line += " -r";
      }
      switch (value_of(option)) {
        case Value::kFolder:
          line += " -a '(__fish_complete_directories)'";
          break;
        case Value::kFile:
          line += " -F";
          break;
        case Value::kChoice:
          line += " -a " + quoted(words(option));
          break;
        default:
          if (option.positional) continue;
      }
      out += line + "\n";
    }
  }
  return out;
}

struct Completion {
  std::string shell;

  void declare(CommandLine& line) { line.positional("bash|zsh|fish", shell, "the shell to write for"); }

  int run() {
    using Writer = std::string (*)(const std::vector<Verb>&);
    const std::vector<std::pair<std::string, Writer>> shells{{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
    std::vector<std::string> known;
    for (const auto& [name, writer] : shells) {
      if (name == shell) return output().write(writer(all_verbs())), 0;
      known.push_back(name);
    }
    throw Error(ErrorKind::kConfig, "unknown shell \"" + shell + "\"" + suggestion(shell, known));
  }
};

}  // namespace

void register_commands_completion(CommandsRegistry& registry) {
  registry.add("completion", command<Completion>("completion script for a shell",
                                                 "source <(fovea completion bash)\n"
                                                 "fovea completion fish | source"));
}

}  // namespace fovea
