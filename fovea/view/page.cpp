// SPDX-License-Identifier: Apache-2.0
#include "fovea/view/page.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "fovea/base/check.h"
#include "fovea/io/files.h"
#include "fovea/io/json.h"
#include "fovea/view/viewer_files.h"  // generated from web/viewer by fovea_embed()

namespace fovea {
namespace {

// Puts `content` in the place of `mark`, which the page holds exactly once.
void put(std::string& page, std::string_view mark, std::string_view content) {
  const size_t at = page.find(mark);
  FOVEA_ASSERT(at != std::string::npos, "the page has no ", mark, "; was the library built with web/viewer?");
  page.replace(at, mark.size(), content);
}

// A '<' can only stand inside a string of JSON, where its escape means the same; no tag is left for HTML to find.
std::string escaped(std::string_view json) {
  std::string out;
  out.reserve(json.size() + 64);
  for (const char c : json) {
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  }
  return out;
}

}  // namespace

std::string page_html(std::string_view record_json) {
  parse_json(record_json, "attention record");
  std::string page(kViewerHtml);
  // The browser itself keeps the page from loading anything.
  constexpr std::string_view kPolicy =
      R"(<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'">)";
  put(page, R"(<link rel="stylesheet" href="viewer.css">)",
      detail::concat(kPolicy, "\n<style>\n", kViewerCss, "</style>"));
  for (const auto& [mark, script] : {std::pair{R"(<script src="record.js"></script>)", kRecordJs},
                                     {R"(<script src="colour.js"></script>)", kColourJs},
                                     {R"(<script src="picture.js"></script>)", kPictureJs},
                                     {R"(<script src="viewer.js"></script>)", kViewerJs}})
    put(page, mark, detail::concat("<script>\n", script, "</script>"));
  put(page, R"(id="record">null</script>)", detail::concat(R"(id="record">)", escaped(record_json), "</script>"));
  return page;
}

void write_page(const std::filesystem::path& path, const AttentionRecord& record) {
  write_file(path, page_html(to_json(record)));
}

}  // namespace fovea
