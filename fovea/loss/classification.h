// How often a classifier is right: accuracy, F1 of each class and their mean, who is taken for whom.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "fovea/loss/bootstrap.h"

namespace fovea {

struct ClassFigures {
  double precision = 0, recall = 0, f1 = 0;  // 0 where nothing can be told
  int64_t count = 0;                         // items of this class
};

struct ClassificationFigures {
  double accuracy = 0;
  // Mean of F1 over the classes that occur, among truths or predictions.
  double macro_f1 = 0;
  std::vector<ClassFigures> classes;
  std::vector<std::vector<int64_t>> confusion;  // [truth][prediction]
};

// confusion [N][N] -> all figures.
ClassificationFigures classification_figures(const std::vector<std::vector<int64_t>>& confusion);
// Items by their true and predicted class, 0 … classes − 1. Error(kArgument) where the lists differ in length, are
// empty, or hold other numbers.
ClassificationFigures classification_figures(const std::vector<int64_t>& truth, const std::vector<int64_t>& predicted,
                                             int64_t classes);

struct ClassificationIntervals {
  Interval accuracy, macro_f1;
};
ClassificationIntervals classification_intervals(const std::vector<int64_t>& truth,
                                                 const std::vector<int64_t>& predicted, int64_t classes,
                                                 const BootstrapOptions& options = {});

}  // namespace fovea
