// SPDX-License-Identifier: Apache-2.0
#include "fovea/train/corpus.h"

#include <cstddef>
#include <iterator>

#include "fovea/base/check.h"
#include "fovea/data/random.h"
#include "fovea/data/text_lines.h"

namespace fovea {
namespace {

template <class Item>
void append_to(std::vector<Item>& all, std::vector<Item> more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

// Moves a `fraction` of the items, drawn always in the same way: they may stand class by class.
template <class Item>
std::vector<Item> cut_items(std::vector<Item>& items, double fraction, const std::string& source, const char* name) {
  const size_t count = size_t(fraction * double(items.size()));
  FOVEA_CHECK_INPUT(count > 0 && count < items.size(), source, ": ", 100 * fraction, " % of ", items.size(), " ", name,
                    " leave one side empty; the validation split needs at least one");
  const auto order = random_permutation(int64_t(items.size()), 0, 0);
  std::vector<bool> drawn(items.size());
  for (size_t i = items.size() - count; i < items.size(); ++i) drawn[size_t(order[i])] = true;
  std::vector<Item> left, out;
  for (size_t i = 0; i < items.size(); ++i) (drawn[i] ? out : left).push_back(std::move(items[i]));
  items = std::move(left);
  return out;
}

}  // namespace

std::string Corpus::joined() const {
  if (!text.empty()) return text;
  std::string out;
  for (const TextPair& pair : pairs) out += pair.source + "\n" + pair.target + "\n";
  for (const LabelledText& item : labelled) out += item.text + "\n" + (item.second.empty() ? "" : item.second + "\n");
  return out;
}

Corpus read_corpus(const std::string& kind, const std::vector<std::string>& files, const std::string& what,
                   LabelColumn labels) {
  Corpus out;
  for (const std::string& file : files) {
    out.source += (out.source.empty() ? "" : ", ") + file;
    if (kind == "pairs") append_to(out.pairs, read_pairs(file));
    if (kind == "labels") append_to(out.labelled, read_labels(file, labels));
    if (kind == "images") append_to(out.images, read_labelled_images(file));
  }
  if (kind != "pairs" && kind != "labels" && kind != "images") out.text = read_texts(files, what);
  return out;
}

Corpus cut_validation(Corpus& train, double fraction) {
  Corpus out;
  out.source = train.source;
  if (!train.pairs.empty()) {
    out.pairs = cut_items(train.pairs, fraction, train.source, "pairs");
  } else if (!train.labelled.empty()) {
    out.labelled = cut_items(train.labelled, fraction, train.source, "texts");
  } else if (!train.images.empty()) {
    out.images = cut_items(train.images, fraction, train.source, "images");
  } else {
    const auto [first, last] = split_tail(train.text, fraction, train.source);
    out.text = last;
    train.text.resize(first.size());
  }
  return out;
}

bool is_for_readers(const std::string& kind) { return kind == "labels" || kind == "masked"; }

}  // namespace fovea
