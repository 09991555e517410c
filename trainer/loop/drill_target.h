#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "model/params/param_store.h"

namespace trireme {

// What a drill damages: the first element that a rank owns of a parameter, at a step.
//   "step=5 rank=1 parameter=layers.0.mlp.up.weight WORD=... once=FILE"
// `once` may be left out; with it, a run that is started anew is not struck again.
struct DrillTarget {
  const char* variable = "";  // of the environment, that asks for the drill
  std::string text;           // its value
  std::int64_t step = 0, rank = 0;
  std::string parameter;
  std::string own;  // the value of the drill's own word
  std::filesystem::path once;

  // Nothing unless each other word is there once and the first three are sound.
  static std::optional<DrillTarget> parse(const char* variable, const std::string& text,
                                          const char* own_word);

  // Throws ConfigError unless `whole`, all of the model, has the parameter; on the rank in
  // question also unless `held` has a part of it. Returns a remark where the world lacks that
  // rank, which is then never struck: a run may shrink.
  std::string check(const ParamStore& whole, const ParamStore& held, int rank, int ranks) const;
  // The run in question; none when this rank owns nothing of the parameter.
  const ParamStore::Owned* find(const ParamStore& held) const;
};

}  // namespace trireme
