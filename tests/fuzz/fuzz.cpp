// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <set>

#include "fovea/base/error.h"
#include "fovea/io/files.h"

// Of the sanitizers, where one is linked in.
extern "C" void __sanitizer_set_death_callback(void (*)()) __attribute__((weak));
extern "C" const char* __asan_default_options() { return "max_allocation_size_mb=1024"; }

namespace fovea::fuzz {
namespace {

constexpr int kLongestRead = 10;            // seconds of processor time
constexpr rlim_t kMostMemory = 2ull << 30;  // beyond what the process has before it begins
constexpr size_t kLargestInput = 1 << 16;

// What a signal handler needs; the input being read.
std::string failed_path, input;

void keep_input() {
  const int file = ::open(failed_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  size_t written = 0;
  for (ssize_t got = 1; got > 0; written += static_cast<size_t>(got)) {
    got = ::write(file, input.data() + written, input.size() - written);
    if (got < 0) break;
  }
  ::close(file);
}

[[noreturn]] void fail(const char* how) {
  keep_input();
  std::printf("FAILED: %s\nthe input is in %s\n", how, failed_path.c_str());
  std::fflush(stdout);
  std::_Exit(1);
}

void on_signal(int signal) {
  if (signal == SIGPROF) fail("took more than 10 s");
  keep_input();
  constexpr std::string_view kMessage = "FAILED: crashed; the input is in the file *.failed beside the program\n";
  if (::write(STDOUT_FILENO, kMessage.data(), kMessage.size()) < 0) std::_Exit(1);
  std::signal(signal, SIG_DFL);  // which the faulting instruction meets next
}

void watch() {
  static char stack[1 << 16];  // a stack overflow leaves no other
  const stack_t alternative{.ss_sp = stack, .ss_flags = 0, .ss_size = sizeof stack};
  ::sigaltstack(&alternative, nullptr);
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_ONSTACK;
  ::sigaction(SIGPROF, &action, nullptr);
  if (__sanitizer_set_death_callback != nullptr) {
    __sanitizer_set_death_callback(keep_input);  // it tells more about a crash than we could
    return;
  }
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) ::sigaction(signal, &action, nullptr);
  long pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit limit;
  ::getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = static_cast<rlim_t>(pages * ::sysconf(_SC_PAGESIZE)) + kMostMemory;
  ::setrlimit(RLIMIT_AS, &limit);
}

class Mutator {
 public:
  Mutator(uint64_t seed, const std::vector<std::string>& words) : random_(seed), words_(words) {
    for (const char* word : {"0",
                             "-1",
                             "1",
                             "1.5",
                             "-0.0",
                             "1e999",
                             "1e-999",
                             "255",
                             "65536",
                             "2147483647",
                             "2147483648",
                             "4294967296",
                             "9223372036854775807",
                             "9223372036854775808",
                             "18446744073709551615",
                             "-9223372036854775808",
                             "1099511627776",
                             "null",
                             "true",
                             "[]",
                             "{}",
                             "\"\"",
                             "[[",
                             "{\"a\":",
                             "\\u0000",
                             "\\ud800",
                             "\n",
                             "\r\n",
                             "\xEF\xBB\xBF",
                             "\xF0\x9F\x98\x80",
                             "é",
                             "e\u0301",
                             "\xC0\x80",
                             "\xED\xA0\x80"})
      words_.emplace_back(word);
  }

  size_t below(size_t end) { return end == 0 ? 0 : random_() % end; }

  std::string mutate(std::string text, const std::vector<std::string>& corpus) {
    for (size_t times = size_t{1} << below(3); times > 0; --times) change(text, corpus);
    if (text.size() > kLargestInput) text.resize(kLargestInput);
    return text;
  }

 private:
  void change(std::string& text, const std::vector<std::string>& corpus) {
    const size_t at = below(text.size() + 1), rest = text.size() - at,
                 length = below(std::min<size_t>(rest, 1 << below(12)) + 1);
    switch (below(10)) {
      case 0:
        if (rest > 0) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        break;
      case 1:
        if (rest > 0) text[at] = static_cast<char>(below(256));
        break;
      case 2:
        text.erase(at, length);
        break;
      case 3:
        text.resize(at);
        break;
      case 4: {  // repeats, so that nesting and lists become long
        const std::string part = text.substr(at, length);
        for (size_t times = size_t{1} << below(12); times > 0 && text.size() < kLargestInput; --times)
          text.insert(at, part);
        break;
      }
      case 5: {  // the head of this one, the tail of another
        const std::string& other = corpus[below(corpus.size())];
        text.resize(at);
        text += other.substr(below(other.size() + 1));
        break;
      }
      case 6:
        text.insert(at, words_[below(words_.size())]);
        break;
      case 7:
        replace_number(text, at);
        break;
      case 8: {  // a binary number
        constexpr uint64_t kNumbers[] = {0,          1,          7,         0x7F,       0xFFFF,    0x7FFFFFFF,
                                         0xFFFFFFFF, 1ull << 40, INT64_MAX, 1ull << 63, UINT64_MAX};
        const uint64_t number = kNumbers[below(std::size(kNumbers))] - below(2);
        if (rest > 0) std::memcpy(text.data() + at, &number, std::min<size_t>(rest, sizeof number));
        break;
      }
      case 9:  // a piece of the same text moves
        text.insert(below(text.size() + 1), text.substr(at, length));
        break;
    }
  }

  void replace_number(std::string& text, size_t from) {
    constexpr const char* kDigits = "0123456789";
    const size_t begin = text.find_first_of(kDigits, from);
    if (begin == text.npos) return;
    const size_t end = std::min(text.find_first_not_of(kDigits, begin), text.size());
    text.replace(begin, end - begin,
                 below(4) == 0 ? std::to_string(below(300)) : words_[words_.size() - 1 - below(words_.size())]);
  }

  std::mt19937_64 random_;
  std::vector<std::string> words_;
};

// A message's words, without names, numbers and what it quotes: inputs that lead to new ones are worth changing
// further.
std::string kind_of(const std::string& message) {
  std::string out;
  char quote = 0;
  for (const char c : message) {
    if (c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '"' || c == '\'')) {
      quote = c;
    } else if (quote == 0 && std::isalpha(static_cast<unsigned char>(c))) {
      out += c;
    }
  }
  return out.substr(0, 100);
}

// The reader's answer: "" or the message of its Error.
std::string answer_of(const Target& target) {
  const itimerval limit{.it_interval = {}, .it_value = {.tv_sec = kLongestRead, .tv_usec = 0}};
  ::setitimer(ITIMER_PROF, &limit, nullptr);
  try {
    target.read(input);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) fail(error.what());
    return error.what();
  } catch (const std::exception& error) {
    fail(error.what());
  }
  return "";
}

int64_t number_in(const char* variable, int64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoll(text);
}

std::map<std::string, Target (*)()>& targets() {
  static std::map<std::string, Target (*)()> all;
  return all;
}

int run(const Target& target) {
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;
  const auto seed = static_cast<uint64_t>(number_in("FOVEA_FUZZ_SEED", 1));
  const auto start = Clock::now(), end = start + std::chrono::seconds(number_in("FOVEA_FUZZ_SECONDS", 3));
  std::vector<std::string> corpus = target.corpus;
  for (const std::string& valid : corpus) {
    input = valid;
    if (const std::string answer = answer_of(target); !answer.empty())
      fail(("a valid input is refused: " + answer).c_str());
  }
  Mutator mutator(seed, target.words);
  std::set<std::string> kinds;
  int64_t count = 0, accepted = 0;
  Seconds slowest{};
  for (; Clock::now() < end; ++count) {
    const auto& from = mutator.below(2) == 0 ? target.corpus : corpus;
    input = mutator.mutate(from[mutator.below(from.size())], corpus);
    const auto before = Clock::now();
    const std::string answer = answer_of(target);
    slowest = std::max<Seconds>(slowest, Clock::now() - before);
    accepted += answer.empty();
    if (!answer.empty() && kinds.insert(kind_of(answer)).second && corpus.size() < 2000) corpus.push_back(input);
  }
  std::printf("seed %lld: %lld inputs in %.1f s, the slowest %.2f s; %lld accepted, %lld kinds of errors\n",
              static_cast<long long>(seed), static_cast<long long>(count), Seconds(Clock::now() - start).count(),
              slowest.count(), static_cast<long long>(accepted), static_cast<long long>(kinds.size()));
  return 0;
}

}  // namespace

Registered::Registered(const char* name, Target (*make)()) { targets().emplace(name, make); }

std::filesystem::path scratch(const std::string& name) {
  // In memory where that can be: a disk costs more than the readers. Never committed, so removed.
  static const std::filesystem::path memory = "/dev/shm", disk = std::filesystem::temp_directory_path();
  static const FolderCommit folder((std::filesystem::is_directory(memory) ? memory : disk) / "fovea_fuzz");
  return folder.path() / name;
}

void put(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

void expect(bool kept, const std::string& message) {
  if (!kept) throw std::logic_error(message);
}

}  // namespace fovea::fuzz

int main(int count, char** arguments) {
  using namespace fovea::fuzz;
  const auto found = targets().find(count > 1 ? arguments[1] : "");
  if (found == targets().end()) {
    for (const auto& [name, make] : targets()) std::printf("%s\n", name.c_str());
    return count > 1 ? 2 : 0;
  }
  const Target target = found->second();
  failed_path = std::string(arguments[0]) + "." + found->first + ".failed";
  watch();
  if (count == 2) return run(target);
  input = fovea::read_file(arguments[2], "input");
  failed_path = "/dev/null";
  const std::string answer = answer_of(target);
  std::printf("%s\n", answer.empty() ? "accepted" : answer.c_str());
  return 0;
}
