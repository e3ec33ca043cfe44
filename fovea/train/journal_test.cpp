// The journal keeps whole lines through cuts and crashes; curves become readable charts.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/train/journal.h"

#include <cmath>

#include "fovea/io/files.h"
#include "fovea/train/curve.h"
#include "fovea/train/toy_model_test.h"

namespace fovea {
namespace {

using JournalFile = toy::Folder;

TEST_F(JournalFile, LinesAreAppendedAndRead) {
  const auto path = folder_ / "journal.jsonl";
  {
    Journal journal(path);
    journal.append({{"step", 1}, {"loss", 0.1}});
    journal.append({{"step", 2}, {"loss", std::nan("")}});
    journal.sync();
    EXPECT_EQ(uintmax_t(journal.size()), std::filesystem::file_size(path));
  }
  const auto lines = read_journal(path);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["loss"].get<double>(), 0.1);
  EXPECT_TRUE(lines[1]["loss"].is_null());
}

TEST_F(JournalFile, TruncationEndsAtAWholeLine) {
  const auto path = folder_ / "journal.jsonl";
  write_file(path, "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n{\"st");
  Journal journal(path);
  journal.truncate(1000);
  EXPECT_EQ(journal.size(), 33);
  journal.truncate(22);
  EXPECT_EQ(journal.size(), 22);
  journal.truncate(21);
  EXPECT_EQ(journal.size(), 11);
  journal.append({{"step", 9}});
  ASSERT_EQ(read_journal(path).size(), 2u);
  EXPECT_EQ(read_journal(path)[1]["step"], 9);
  journal.truncate(0);
  EXPECT_TRUE(read_journal(path).empty());
}

TEST_F(JournalFile, ASecondWriterIsRefused) {
  const Journal journal(folder_ / "journal.jsonl");
  toy::expect_error([&] { Journal second(folder_ / "journal.jsonl"); }, ErrorKind::kSystem,
                    "another process is training in this folder");
}

TEST_F(JournalFile, BadLinesAreNamed) {
  write_file(folder_ / "journal.jsonl", "{\"step\":1}\nnonsense\n");
  toy::expect_error([&] { read_journal(folder_ / "journal.jsonl"); }, ErrorKind::kInput, "journal.jsonl:2");
  toy::expect_error([&] { Journal journal(folder_ / "no" / "journal.jsonl"); }, ErrorKind::kSystem, "cannot write");
}

size_t count(const std::string& text, const std::string& part) {
  size_t out = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++out;
  return out;
}

TEST(LossCurve, BothCurvesAxesAndLabels) {
  LossCurve curve("kjv <1> & more");
  EXPECT_NE(curve.svg().find("no points yet"), std::string::npos);
  for (int step = 1; step <= 4000; ++step) {
    curve.add({{"step", step}, {"loss", 1.3 + 3 * std::exp(-step / 300.0) + 0.1 * std::sin(step)}});
    if (step % 500 == 0) curve.add({{"event", "validation"}, {"step", step}, {"loss", 1.4}});
  }
  curve.add({{"event", "start"}, {"step", 1}});
  curve.add({{"step", 4001}, {"loss", nullptr}});
  const std::string svg = curve.svg();
  EXPECT_EQ(count(svg, "<polyline"), 2u);
  EXPECT_EQ(count(svg, "<circle"), 8u);
  EXPECT_NE(svg.find(">training</text>"), std::string::npos);
  EXPECT_NE(svg.find(">validation (1.4000)</text>"), std::string::npos);
  EXPECT_NE(svg.find("kjv &lt;1&gt; &amp; more"), std::string::npos);
  EXPECT_NE(svg.find(">3500</text>"), std::string::npos);  // ticks
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_LT(svg.size(), 40000u);  // thinned
}

TEST(LossCurve, OnePointIsEnough) {
  LossCurve curve("x");
  curve.add({{"step", 1}, {"loss", 2.5}});
  EXPECT_EQ(count(curve.svg(), "<polyline"), 1u);
  EXPECT_EQ(curve.svg().find("nan"), std::string::npos);
  EXPECT_EQ(curve.svg().find("inf"), std::string::npos);
}

}  // namespace
}  // namespace fovea
