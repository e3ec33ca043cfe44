// The shape of the source tree, as docs/design.md promises it: who may include whom, what each room may not touch, and
// pages whose links lead somewhere. Reads the sources under FOVEA_SOURCE_DIR; needs no LibTorch.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

// From left to right; a room may include what stands left of it. Rooms on one line stand side by side.
const std::vector<std::set<std::string>> kOrder = {
    {"base"},      {"io"},     {"text"},      {"data"},    {"kernels"}, {"masks"}, {"scores"}, {"ops"},
    {"positions"}, {"layers"}, {"attention"}, {"channel"}, {"blocks"},  {"heads"}, {"models"}, {"loss", "generate"},
    {"train"},     {"view"},
};

struct Source {
  std::string path;  // "fovea/ops/attention.cpp"
  std::string text;
  std::string code;  // without comments and the content of literals

  std::string room() const {
    const size_t end = path.find('/', 6);
    return path.starts_with("fovea/") && end != std::string::npos ? path.substr(6, end - 6) : "";
  }
  bool is_header() const { return path.ends_with(".h"); }
  bool is_test() const { return path.ends_with("_test.cpp") || path.starts_with("tests/"); }
};

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

// Blanks out comments and the content of string and character literals, keeps line ends.
std::string code_of(const std::string& text) {
  static const std::regex kRaw(R"re(^R"([^ ()\\\n]{0,16})\()re");
  std::string out;
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    if (text.compare(i, 2, "//") == 0) {
      end = text.find('\n', i);
    } else if (text.compare(i, 2, "/*") == 0) {
      end = text.find("*/", i + 2);
      end = end == std::string::npos ? end : end + 2;
    } else if (std::smatch raw; text[i] == 'R' && std::regex_search(text.begin() + long(i), text.end(), raw, kRaw,
                                                                    std::regex_constants::match_continuous)) {
      end = text.find(")" + raw[1].str() + "\"", i);
    } else if (text[i] == '"' ||
               (text[i] == '\'' && (i == 0 || !std::isalnum(static_cast<unsigned char>(text[i - 1]))))) {
      for (end = i + 1; end < text.size() && text[end] != text[i] && text[end] != '\n'; ++end) end += text[end] == '\\';
      end = std::min(end + 1, text.size());
    }
    if (end == i) {
      out += text[i++];
      continue;
    }
    end = std::min(end, text.size());
    out += ' ';
    out.append(size_t(std::count(text.begin() + long(i), text.begin() + long(end), '\n')), '\n');
    i = end;
  }
  return out;
}

// All C++ sources of the folders, sorted.
const std::vector<Source>& sources() {
  static const std::vector<Source> all = [] {
    std::vector<Source> out;
    const fs::path root = FOVEA_SOURCE_DIR;
    for (const char* folder : {"fovea", "apps", "tests", "examples"}) {
      for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
        if (!entry.is_regular_file() || (entry.path().extension() != ".h" && entry.path().extension() != ".cpp"))
          continue;
        const std::string text = read(entry.path());
        out.push_back({fs::relative(entry.path(), root).generic_string(), text, code_of(text)});
      }
    }
    std::sort(out.begin(), out.end(), [](const Source& a, const Source& b) { return a.path < b.path; });
    return out;
  }();
  return all;
}

std::vector<std::string> includes(const Source& source) {
  std::vector<std::string> out;
  std::istringstream lines(source.text);
  for (std::string line; std::getline(lines, line);) {
    const size_t open = line.find_first_of("<\"");
    if (line.starts_with("#include") && open != std::string::npos)
      out.push_back(line.substr(open + 1, line.find_first_of(">\"", open + 1) - open - 1));
  }
  return out;
}

int rank(const std::string& room) {
  for (size_t i = 0; i < kOrder.size(); ++i)
    if (kOrder[i].count(room)) return int(i);
  return -1;
}

// "path:line: the line", for every match in the code of the sources that `where` picks.
std::vector<std::string> lines_with(const std::string& pattern, const std::function<bool(const Source&)>& where) {
  const std::regex wanted(pattern);
  std::vector<std::string> out;
  for (const Source& source : sources()) {
    if (!where(source)) continue;
    std::istringstream lines(source.code);
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      if (std::regex_search(line, wanted)) out.push_back(source.path + ":" + std::to_string(number) + ": " + line);
    }
  }
  return out;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string out;
  for (const auto& line : lines) out += line + "\n";
  return out;
}

bool in_library(const Source& source) { return !source.room().empty() && !source.is_test(); }

TEST(Layout, TheTreeIsThere) {
  EXPECT_GT(sources().size(), 100u);
  for (const Source& source : sources())
    if (source.path.starts_with("fovea/") && source.path != "fovea/fovea.h") {
      EXPECT_GE(rank(source.room()), 0) << source.path << " is in no room of the order";
    }
}

TEST(Layout, RoomsIncludeWhatStandsLeftOfThem) {
  for (const Source& source : sources()) {
    if (source.room().empty()) continue;
    for (const std::string& name : includes(source)) {
      EXPECT_FALSE(name.starts_with("apps/")) << source.path << " includes " << name;
      EXPECT_TRUE(source.is_test() || !name.starts_with("tests/")) << source.path << " includes " << name;
      if (!name.starts_with("fovea/") || source.is_test()) continue;
      const std::string room = Source{name, "", ""}.room();
      EXPECT_TRUE(room == source.room() || rank(room) < rank(source.room()))
          << source.path << " includes " << name << ", which stands right of it";
    }
  }
}

TEST(Layout, LightRoomsKnowNoLibTorch) {
  for (const Source& source : sources()) {
    if (source.is_test() || !std::set<std::string>{"base", "text", "kernels"}.count(source.room())) continue;
    for (const std::string& name : includes(source))
      EXPECT_FALSE(name.starts_with("ATen/") || name.starts_with("torch/") || name.starts_with("c10/"))
          << source.path << " includes " << name;
  }
}

TEST(Layout, TheUmbrellaIsForUsers) {
  for (const Source& source : sources()) {
    if (source.path.starts_with("examples/") || source.path.starts_with("tests/install/")) continue;
    for (const std::string& name : includes(source)) EXPECT_NE(name, "fovea/fovea.h") << source.path;
  }
}

TEST(Layout, ModelsAreReachedThroughTheirRegistry) {
  const std::set<std::string> doors = {"fovea/models/model.h", "fovea/models/registry.h", "fovea/models/pretrained.h",
                                       "fovea/models/text_encoder.h", "fovea/models/image_encoder.h"};
  for (const Source& source : sources()) {
    if (source.is_test() || source.path.starts_with("examples/") || source.room() == "models" ||
        source.path == "fovea/fovea.h")
      continue;
    for (const std::string& name : includes(source))
      EXPECT_TRUE(!name.starts_with("fovea/models/") || doors.count(name)) << source.path << " includes " << name;
  }
}

TEST(Layout, OnlyOpsAndIoAskForPointers) {
  const auto found = lines_with(R"(\bdata_ptr\b|_data_ptr\b|\bdata_ptr<)",
                                [](const Source& s) { return in_library(s) && s.room() != "ops" && s.room() != "io"; });
  EXPECT_TRUE(found.empty()) << joined(found);
}

TEST(Layout, OnlyKernelsIsaKnowsInstructionSets) {
  for (const Source& source : sources())
    for (const std::string& name : includes(source))
      EXPECT_TRUE(!name.ends_with("intrin.h") || source.path.starts_with("fovea/kernels/isa/"))
          << source.path << " includes " << name;
}

TEST(Layout, TheLibraryNeverPrintsAndNeverExits) {
  // base/log.cpp is where FOVEA_LOG sends lines to standard error while no callback is set.
  const auto printing =
      lines_with(R"(\bstd::(cout|cerr|clog)\b|\b(v?printf|v?fprintf|puts|fputs|putchar|putc|fputc|perror)\s*\()",
                 [](const Source& s) { return in_library(s) && s.path != "fovea/base/log.cpp"; });
  EXPECT_TRUE(printing.empty()) << joined(printing);
  const auto ending = lines_with(R"(\b(exit|_exit|_Exit|quick_exit|abort|terminate)\s*\()", in_library);
  EXPECT_TRUE(ending.empty()) << joined(ending);
}

TEST(Layout, EveryFileSaysItsLicenceAndHeadersAreGuarded) {
  for (const Source& source : sources()) {
    EXPECT_NE(source.text.find("SPDX-License-Identifier: Apache-2.0\n"), std::string::npos) << source.path;
    if (source.is_header()) {
      EXPECT_NE(source.code.find("#pragma once\n"), std::string::npos) << source.path;
    }
    if (source.is_header()) {
      EXPECT_EQ(source.code.find("using namespace "), std::string::npos) << source.path;
    }
  }
}

TEST(Layout, FilesAreSmall) {
  const std::set<std::string> kinds = {".h", ".cpp", ".py", ".js", ".css", ".html", ".cmake", ".toml", ""};
  const fs::path root = FOVEA_SOURCE_DIR;
  for (const char* folder : {"fovea", "apps", "tests", "examples", "web", "tools", "cmake", "configs"}) {
    if (!fs::exists(root / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (!entry.is_regular_file() || !kinds.count(entry.path().extension().string())) continue;
      const std::string text = read(entry.path());
      EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 500) << fs::relative(entry.path(), root);
    }
  }
}

std::vector<fs::path> pages() {
  const fs::path root = FOVEA_SOURCE_DIR;
  std::vector<fs::path> out = {root / "README.md", root / "TOUR.md"};
  for (const auto& entry : fs::recursive_directory_iterator(root / "docs"))
    if (entry.path().extension() == ".md") out.push_back(entry.path());
  return out;
}

TEST(Pages, LinksLeadSomewhere) {
  const std::regex link(R"(\]\(([^)\s#]+)(#[^)\s]*)?\))");
  for (const fs::path& page : pages()) {
    const std::string text = read(page);
    ASSERT_FALSE(text.empty()) << page;
    for (std::sregex_iterator found(text.begin(), text.end(), link), end; found != end; ++found) {
      const std::string target = (*found)[1];
      if (target.find("://") == std::string::npos) {
        EXPECT_TRUE(fs::exists(page.parent_path() / target)) << page.filename() << " links to " << target;
      }
    }
  }
}

TEST(Pages, AddingAThingTakesTenLines) {
  for (const fs::path& page : pages())
    if (const std::string text = read(page); page.filename().string().starts_with("add_a")) {
      EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 10) << page.filename();
    }
}

std::vector<std::string> trimmed_lines(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t begin = line.find_first_not_of(" \t");
    if (begin != std::string::npos) out.push_back(line.substr(begin));
  }
  return out;
}

// Code on the first page is code that is compiled and run.
TEST(Pages, TheFirstPagesCodeIsAnExample) {
  const std::string page = read(fs::path(FOVEA_SOURCE_DIR) / "README.md");
  const size_t begin = page.find("```cpp\n"), end = page.find("\n```", begin + 7);
  ASSERT_NE(begin, std::string::npos);
  const auto example = trimmed_lines(read(fs::path(FOVEA_SOURCE_DIR) / "examples/readme.cpp"));
  auto at = example.begin();
  for (const std::string& line : trimmed_lines(page.substr(begin + 7, end - begin - 7))) {
    at = std::find(at, example.end(), line);
    ASSERT_NE(at, example.end()) << "not in examples/readme.cpp, or not in this order: " << line;
  }
}

}  // namespace
