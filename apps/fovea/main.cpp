// The command: finds the verb, runs it, and turns what went wrong into one line and an exit code.
// SPDX-License-Identifier: Apache-2.0
#include <c10/util/Exception.h>
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "apps/fovea/commands/registry.h"
#include "apps/fovea/exit_codes.h"
#include "apps/fovea/output.h"
#include "fovea/base/error.h"
#include "fovea/base/memory.h"

namespace fovea {
namespace {

std::string overview() {
  std::string out =
      "fovea: attention and Transformers, native in C++\n\nUsage: fovea VERB [options]\n       fovea VERB --help\n\n";
  for (const auto& [verb, entry] : commands_registry().entries())
    out += "  " + verb + std::string(verb.size() < 12 ? 12 - verb.size() : 1, ' ') + entry.summary + "\n";
  return out + "\nA model is a folder in Hugging Face layout: config.json, model.safetensors, tokenizer.json.\n";
}

int run_verb(const std::string& verb, const std::vector<std::string>& arguments) {
  const CommandEntry& entry = commands_registry().at(verb);
  CommandLine line(verb, entry.summary, entry.example);
  const auto run = entry.declare(line);
  try {
    if (line.parse(arguments) == CommandLine::Parsed::kHelp) {
      output().write(line.help());
      return kExitDone;
    }
  } catch (const Error& error) {
    throw Error(error.kind(), std::string(error.what()) + " (fovea " + verb + " --help shows all)");
  }
  return run();
}

int run(std::vector<std::string> arguments) {
  if (arguments.empty()) {
    tell(overview());
    return kExitUsage;
  }
  const std::string first = arguments.front();
  arguments.erase(arguments.begin());
  if (first == "--version" || first == "-V") return output().line("fovea " FOVEA_VERSION), 0;
  if (first == "--help" || first == "-h" || first == "help") {
    if (arguments.empty()) return output().write(overview()), 0;
    return run_verb(arguments.front(), {"--help"});
  }
  return run_verb(first, arguments);
}

// LibTorch's messages carry a backtrace, and the place in its source.
std::string first_line(std::string text) {
  const std::string allocator = "DefaultCPUAllocator: ";
  if (const size_t at = text.find(allocator); at != std::string::npos)
    text = "out of memory: " + text.substr(at + allocator.size());
  return text.substr(0, text.find('\n'));
}

int complain(const std::string& name, const std::string& message, int code) {
  tell(name + ": " + message);
  return code;
}

// What was written before the error stays written.
void flush_quietly() {
  try {
    output().flush();
  } catch (...) {
  }
}

int main_with_errors(const std::vector<std::string>& arguments) {
  const bool known = !arguments.empty() && commands_registry().contains(arguments.front());
  const std::string name = known ? "fovea " + arguments.front() : "fovea";
  try {
    const int code = run(arguments);
    output().flush();
    return code;
  } catch (const BrokenPipe&) {
    throw;
  } catch (const Error& error) {
    flush_quietly();
    return complain(name, error.what(), error.exit_code());
  } catch (const c10::Error& error) {
    flush_quietly();
    return complain(name, first_line(error.what_without_backtrace()), kExitFailed);
  } catch (const std::bad_alloc&) {
    flush_quietly();
    return complain(name, "out of memory", kExitFailed);
  } catch (const std::exception& error) {
    flush_quietly();
    return complain(name, first_line(error.what()), kExitFailed);
  }
}

// A file must not get the number of a closed standard stream: messages would be written into it. Opened the wrong way
// round, the stream still refuses.
void occupy_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) == -1) ::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

// OpenMP's threads wait for each other in a loop, for milliseconds by themselves: beside another program they hold the
// core that the awaited one needs, and a training takes four times as long. The limit is read from the environment when
// the library is loaded, so a training starts once more with a shorter one. Whoever has set it, knows better.
void restart_with_short_waits(char** words) {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  std::error_code failed;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (failed || setenv("GOMP_SPINCOUNT", "10000", 1) != 0) return;
  ::execv(program.c_str(), words);  // comes back only if it fails: then without
}

}  // namespace
}  // namespace fovea

int main(int count, char** words) {
  const bool trains = count >= 2 && std::string_view(words[1]) == "train";
  if (trains) fovea::restart_with_short_waits(words);
  fovea::keep_freed_memory();
  if (!trains) fovea::use_large_pages();
  fovea::occupy_closed_streams();
  // A write says so instead, and destructors run: a reader that went away, a file beyond the user's limit.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    return fovea::main_with_errors({words + 1, words + count});
  } catch (const fovea::BrokenPipe&) {
    std::signal(SIGPIPE, SIG_DFL);  // end as every filter does whose reader went away
    std::raise(SIGPIPE);
    return fovea::kExitFailed;
  }
}
