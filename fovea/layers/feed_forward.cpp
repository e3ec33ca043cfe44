// SPDX-License-Identifier: Apache-2.0
#include "fovea/layers/feed_forward.h"

#include <map>

#include "fovea/base/check.h"
#include "fovea/base/nearest.h"
#include "fovea/base/size.h"
#include "fovea/layers/dropout.h"
#include "fovea/layers/linear.h"

namespace fovea {
namespace {

FeedForwardOptions completed(FeedForwardOptions o) {
  static const std::map<std::string, std::string> gated_names = {
      {"swiglu", "silu"}, {"geglu", "gelu"}, {"geglu_tanh", "gelu_tanh"}, {"reglu", "relu"}, {"glu", "sigmoid"}};
  if (const auto found = gated_names.find(o.activation); found != gated_names.end()) {
    o.activation = found->second;
    o.gated = true;
  }
  if (o.hidden == 0) o.hidden = times(4, o.width);
  auto names = activation_names();
  const bool known = std::find(names.begin(), names.end(), o.activation) != names.end();
  for (const auto& [name, inner] : gated_names) names.push_back(name);
  FOVEA_CHECK_CONFIG(known, "unknown activation \"", o.activation, "\"", suggestion(o.activation, names));
  FOVEA_CHECK_CONFIG(o.width > 0, "feed-forward: width is ", o.width, ", wanted at least 1");
  FOVEA_CHECK_CONFIG(o.hidden > 0, "feed-forward: hidden is ", o.hidden, ", wanted at least 1");
  check_probability("feed-forward: dropout", o.dropout);
  return o;
}

}  // namespace

FeedForwardImpl::FeedForwardImpl(FeedForwardOptions options)
    : options_(completed(std::move(options))), activation_(activation(options_.activation)) {
  const auto inward = [&] { return make_linear(options_.width, options_.hidden, options_.bias); };
  if (options_.gated) gate = register_module("gate", inward());
  up = register_module("up", inward());
  down = register_module("down", make_linear(options_.hidden, options_.width, options_.bias));
}

at::Tensor FeedForwardImpl::forward(const at::Tensor& x) const {
  at::Tensor hidden = activation_(linear(options_.gated ? gate : up, x));  // [..., hidden]
  if (options_.gated) hidden = hidden * linear(up, x);
  return linear(down, drop(hidden, options_.dropout, is_training()));  // [..., C]
}

}  // namespace fovea
