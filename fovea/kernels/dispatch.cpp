// SPDX-License-Identifier: Apache-2.0
#include "fovea/kernels/dispatch.h"

#include <cstdlib>
#include <sstream>

#include "fovea/base/check.h"

namespace fovea {

#if defined(__x86_64__)
extern const Isa kIsa_avx512_bf16, kIsa_avx512, kIsa_avx2;
#endif
extern const Isa kIsa_scalar;

namespace {

// The compiler's question takes a literal.
bool processor_has(const std::string& feature) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (feature == "avx2") return __builtin_cpu_supports("avx2");
  if (feature == "fma") return __builtin_cpu_supports("fma");
  if (feature == "avx512f") return __builtin_cpu_supports("avx512f");
  if (feature == "avx512bw") return __builtin_cpu_supports("avx512bw");
  if (feature == "avx512vl") return __builtin_cpu_supports("avx512vl");
  if (feature == "avx512dq") return __builtin_cpu_supports("avx512dq");
  if (feature == "avx512bf16") return __builtin_cpu_supports("avx512bf16");
#endif
  return false;
}

bool processor_is_by(const std::string& vendor) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (vendor == "amd") return __builtin_cpu_is("amd");
#endif
  return vendor.empty();
}

const Isa& choose_isa() {
  const char* named = std::getenv("FOVEA_ISA");
  std::string names;
  for (const Isa* candidate : all_isas()) {
    const std::string lacks = isa_lacks(*candidate);
    if (named && *named) {
      names += (names.empty() ? "" : ", ") + std::string(candidate->name);
      if (named != std::string(candidate->name)) continue;
      FOVEA_CHECK_KIND(ErrorKind::kConfig, lacks.empty(), "FOVEA_ISA=", named, ": this processor lacks ", lacks);
      return *candidate;
    }
    if (lacks.empty() && isa_passed_over(*candidate).empty()) return *candidate;
  }
  throw Error(ErrorKind::kConfig, "FOVEA_ISA=" + std::string(named ? named : "") + " is not one of " + names);
}

}  // namespace

const std::vector<const Isa*>& all_isas() {
#if defined(__x86_64__)
  static const std::vector<const Isa*> isas{&kIsa_avx512_bf16, &kIsa_avx512, &kIsa_avx2, &kIsa_scalar};
#else
  static const std::vector<const Isa*> isas{&kIsa_scalar};
#endif
  return isas;
}

std::string isa_lacks(const Isa& candidate) {
  std::string lacks, feature;
  for (std::istringstream needs(candidate.needs); needs >> feature;)
    if (!processor_has(feature)) lacks += (lacks.empty() ? "" : ", ") + feature;
  return lacks;
}

std::string isa_passed_over(const Isa& candidate) {
  if (processor_is_by(candidate.fast_on)) return "";
  return std::string("known to be fast on processors by ") + candidate.fast_on + " only; FOVEA_ISA=" + candidate.name +
         " takes it";
}

const Isa& isa() {
  static const Isa& chosen = choose_isa();
  return chosen;
}

}  // namespace fovea
