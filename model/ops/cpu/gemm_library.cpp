#include "model/ops/cpu/gemm_library.h"

#include "model/base/error.h"
#include "model/ops/choice_table.h"

namespace trireme::ops::cpu {

const char* name_of(GemmLibrary library) {
  switch (library) {
    case GemmLibrary::kOpenBlas:
      return "openblas";
    case GemmLibrary::kOneDnn:
      return "onednn";
    case GemmLibrary::kOwn:
      return "trireme";
  }
  throw Error("not a matrix product library");
}

std::optional<GemmLibrary> library_named(std::string_view name) {
  for (const GemmLibrary library : kGemmLibraries)
    if (name == name_of(library)) return library;
  return std::nullopt;
}

bool is_library(const std::string&, const std::string& way) {
  return library_named(way).has_value();
}

std::string choice_key(const MatMulShape& s) {
  std::string key = say(trireme::name_of(s.in), s.out == s.in ? "" : ">",
                        s.out == s.in ? "" : trireme::name_of(s.out), " ",
                        s.transpose_a ? "t" : "n", s.transpose_b ? "t" : "n", " ");
  key += extents_key(s.m, s.n, s.k);
  if (s.accumulate == Accumulate::kAdd) key += " add";
  if (s.bias) key += " bias";
  return key;
}

}  // namespace trireme::ops::cpu
