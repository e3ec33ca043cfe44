// SPDX-License-Identifier: Apache-2.0
#include "fovea/masks/document.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>

#include <algorithm>

#include "fovea/masks/registry.h"

namespace fovea {
namespace {

class DocumentRule final : public InlinedRule<DocumentRule> {
 public:
  // `shift`: where the ids of the queries start.
  DocumentRule(ArrayView query_ids, ArrayView key_ids, int64_t shift)
      : queries_(query_ids), keys_(key_ids), shift_(shift), ordered_(ordered(query_ids) && ordered(key_ids)) {}

  bool allowed(int64_t b, int64_t, int64_t q, int64_t k) const override { return query(b, q) == key(b, k); }
  // From the ranges of ids on both sides: exact for documents that follow each other, else at worst "look closer".
  Cover cover(const Tile& t) const override {
    const Range q = range(queries_, t.b, t.q0 + shift_, t.q1 + shift_), k = range(keys_, t.b, t.k0, t.k1);
    if (q.high < k.low || k.high < q.low) return Cover::kSkip;
    return q.low == q.high && k.low == k.high ? Cover::kFull : Cover::kPartial;
  }
  bool depends_on_batch() const override { return queries_.rank == 2 || keys_.rank == 2; }

 private:
  int64_t query(int64_t b, int64_t q) const { return id(queries_, b, q + shift_); }
  int64_t key(int64_t b, int64_t k) const { return id(keys_, b, k); }
  static int64_t id(const ArrayView& ids, int64_t b, int64_t i) { return ids.rank == 2 ? ids.at<int64_t>(b, i) : ids.at<int64_t>(i); }

  struct Range {
    int64_t low, high;
  };
  Range range(const ArrayView& ids, int64_t b, int64_t begin, int64_t end) const {
    Range out{id(ids, b, begin), id(ids, b, end - 1)};
    for (int64_t i = begin; !ordered_ && i < end; ++i)
      out = {std::min(out.low, id(ids, b, i)), std::max(out.high, id(ids, b, i))};
    return out;
  }
  static bool ordered(const ArrayView& ids) {
    for (int64_t b = 0; b < (ids.rank == 2 ? ids.size[0] : 1); ++b)
      for (int64_t i = 1; i < ids.size[ids.rank - 1]; ++i)
        if (id(ids, b, i - 1) > id(ids, b, i)) return false;
    return true;
  }

  ArrayView queries_, keys_;
  int64_t shift_;
  bool ordered_;  // ids never fall: the ends of a range are its least and greatest
};

void check_ids(const char* what, const ArrayView& ids, int64_t batch, int64_t length) {
  FOVEA_CHECK_KIND(ErrorKind::kArgument, ids.type == ViewType::kInt64 && (ids.rank == 1 || (ids.rank == 2 && ids.size[0] == batch)) &&
                                             ids.size[ids.rank - 1] == length,
                   what, ": wanted integers [", length, "] or [", batch, ", ", length, "]");
}

}  // namespace

namespace masks {

Mask document(const at::Tensor& ids) { return Mask::leaf("document", {}, {ids}); }
Mask document(const at::Tensor& query_ids, const at::Tensor& key_ids) { return Mask::leaf("document", {}, {query_ids, key_ids}); }

}  // namespace masks

void register_masks_document(MasksRegistry& registry) {
  registry.add("document", {.bind = [](auto&, auto& data, auto& shape) -> MaskRulePtr {
                              FOVEA_CHECK_KIND(ErrorKind::kArgument, data.size() == 1 || data.size() == 2, "masks::document: wanted one or two tensors of ids");
                              check_ids("masks::document: key_ids", data.back(), shape.B, shape.S);
                              if (data.size() == 2) {
                                check_ids("masks::document: query_ids", data[0], shape.B, shape.T);
                                return std::make_shared<DocumentRule>(data[0], data[1], 0);
                              }
                              FOVEA_CHECK_KIND(ErrorKind::kArgument, shape.T <= shape.S, "masks::document: ", shape.T, " queries but only ", shape.S,
                                               " keys; give the queries' ids too");
                              return std::make_shared<DocumentRule>(data[0], data[0], shape.offset());
                            },
                            .samples = [](auto& s) {
                              const auto keys = at::arange(s.S).floor_divide(3), queries = at::arange(s.T).floor_divide(2);
                              std::vector<Mask> out{masks::document(queries, keys)};
                              if (s.T <= s.S) out.push_back(masks::document(keys.unsqueeze(0).repeat({s.B, 1})));
                              return out;
                            }});
}

}  // namespace fovea
