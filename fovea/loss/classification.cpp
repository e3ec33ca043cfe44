// SPDX-License-Identifier: Apache-2.0
#include "fovea/loss/classification.h"

#include <cstddef>

#include "fovea/base/check.h"

namespace fovea {
namespace {

using Confusion = std::vector<std::vector<int64_t>>;

double ratio_or_zero(int64_t part, int64_t whole) { return whole > 0 ? double(part) / double(whole) : 0; }

// `counts`: how often each item stands for itself; empty: once.
Confusion count_confusion(const std::vector<int64_t>& truth, const std::vector<int64_t>& predicted, int64_t classes,
                          const std::vector<int64_t>& counts) {
  Confusion out(static_cast<size_t>(classes), std::vector<int64_t>(static_cast<size_t>(classes)));
  for (size_t i = 0; i < truth.size(); ++i)
    out[size_t(truth[i])][size_t(predicted[i])] += counts.empty() ? 1 : counts[i];
  return out;
}

void check_classes(const std::vector<int64_t>& truth, const std::vector<int64_t>& predicted, int64_t classes) {
  FOVEA_CHECK(truth.size() == predicted.size() && !truth.empty(), "there are ", truth.size(), " truths and ",
              predicted.size(), " predictions; wanted as many of both, at least 1");
  for (const auto* list : {&truth, &predicted})
    for (const int64_t value : *list)
      FOVEA_CHECK(value >= 0 && value < classes, "class ", value, " is outside 0 … ", classes - 1);
}

}  // namespace

ClassificationFigures classification_figures(const Confusion& confusion) {
  ClassificationFigures out{.classes = std::vector<ClassFigures>(confusion.size()), .confusion = confusion};
  int64_t all = 0, right = 0, occurring = 0;
  for (size_t c = 0; c < confusion.size(); ++c) {
    int64_t of_class = 0, taken_for = 0;
    for (size_t i = 0; i < confusion.size(); ++i) of_class += confusion[c][i], taken_for += confusion[i][c];
    const int64_t hits = confusion[c][c];
    ClassFigures& figures = out.classes[c];
    figures = {ratio_or_zero(hits, taken_for), ratio_or_zero(hits, of_class),
               ratio_or_zero(2 * hits, of_class + taken_for), of_class};
    all += of_class, right += hits;
    if (of_class + taken_for == 0) continue;
    ++occurring;
    out.macro_f1 += figures.f1;
  }
  out.accuracy = ratio_or_zero(right, all);
  if (occurring > 0) out.macro_f1 /= double(occurring);
  return out;
}

ClassificationFigures classification_figures(const std::vector<int64_t>& truth, const std::vector<int64_t>& predicted,
                                             int64_t classes) {
  check_classes(truth, predicted, classes);
  return classification_figures(count_confusion(truth, predicted, classes, {}));
}

ClassificationIntervals classification_intervals(const std::vector<int64_t>& truth,
                                                 const std::vector<int64_t>& predicted, int64_t classes,
                                                 const BootstrapOptions& options) {
  check_classes(truth, predicted, classes);
  const auto interval = [&](double ClassificationFigures::*figure) {
    return bootstrap(
        int64_t(truth.size()),
        [&](const std::vector<int64_t>& counts) {
          return classification_figures(count_confusion(truth, predicted, classes, counts)).*figure;
        },
        options);
  };
  return {interval(&ClassificationFigures::accuracy), interval(&ClassificationFigures::macro_f1)};
}

}  // namespace fovea
