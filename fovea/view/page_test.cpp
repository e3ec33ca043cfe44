// SPDX-License-Identifier: Apache-2.0
#include "fovea/view/page.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "fovea/base/error.h"
#include "fovea/io/files.h"

namespace fovea {
namespace {

AttentionRecord nasty_record() {
  return {"</title><b>",
          {{"text", {"</script>", "<!--", "<script>", "\xE2\x80\xA8", "\\u003c", "中", "\n"}}},
          {{"layers.0.attention.weights", 0, 0, at::ones({1, 7, 7}) / 7}}};
}

size_t count(const std::string& text, const std::string& part) {
  size_t out = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++out;
  return out;
}

TEST(Page, HoldsStyleScriptAndRecordAndNothingFromOutside) {
  const std::string page = page_html(to_json(nasty_record()));
  EXPECT_EQ(page.find("viewer.css\""), std::string::npos);
  EXPECT_EQ(page.find(".js\""), std::string::npos);
  EXPECT_NE(page.find("class Viewer"), std::string::npos);
  EXPECT_NE(page.find("color-scheme"), std::string::npos);
  for (const char* outside : {"http:", "https:", "src=", "@import", "url(", "fetch(", "XMLHttpRequest"})
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
}

TEST(Page, NoTokenEndsTheRecord) {
  const std::string json = to_json(nasty_record());
  const std::string page = page_html(json);
  EXPECT_EQ(count(page, "</script>"), 5u);  // the record's and the viewer's own four
  EXPECT_EQ(count(page, "<script"), 5u);
  const std::string open = R"(<script type="application/json" id="record">)";
  const size_t begin = page.find(open) + open.size();
  const std::string inlined = page.substr(begin, page.find("</script>", begin) - begin);
  EXPECT_EQ(inlined.find('<'), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(inlined), nlohmann::json::parse(json));
}

TEST(Page, TakesOnlyJson) { EXPECT_THROW(page_html("no json"), Error); }

TEST(Page, IsWrittenAsAFile) {
  const auto path = std::filesystem::path(testing::TempDir()) / "page_test.html";
  write_page(path, nasty_record());
  EXPECT_EQ(read_file(path), page_html(to_json(nasty_record())));
  std::filesystem::remove(path);
  EXPECT_THROW(write_page("/nonexistent/page.html", nasty_record()), Error);
}

}  // namespace
}  // namespace fovea
