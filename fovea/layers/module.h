// How fovea declares a module: an Impl class and a holder that also takes its options in braces.
//
//   Attention attention({.width = 512, .heads = 8});   // a holder of AttentionImpl, as torch::nn::Linear is one of
//   LinearImpl Attention later;                                   // empty
//
// Our modules' forward is const: modules that only run may be shared by threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <utility>

#define FOVEA_MODULE(Name, Options)                                                           \
  class Name : public torch::nn::ModuleHolder<Name##Impl> {                                   \
   public:                                                                                    \
    using torch::nn::ModuleHolder<Name##Impl>::ModuleHolder;                                  \
    Name() : ModuleHolder(nullptr) {}                                                         \
    Name(Options options) : ModuleHolder(std::make_shared<Name##Impl>(std::move(options))) {} \
  }
