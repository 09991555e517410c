#pragma once
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "trainer/config/option.h"

namespace trireme {

// A key of model.rope_scaling other than rope_type; Hugging Face's names.
struct RopeMember {
  const char* name;
  std::variant<double RopeScaling::*, std::int64_t RopeScaling::*, bool RopeScaling::*,
               std::vector<double> RopeScaling::*>
      pointer;
  Range range;
  std::vector<RopeScaling::Type> types;  // to which it applies
  bool is_of(RopeScaling::Type type) const;
};
const std::vector<RopeMember>& rope_members();
const RopeMember* find_rope_member(std::string_view name);
std::vector<std::string> rope_member_names();
std::vector<std::string> rope_type_names();

// { rope_type = "yarn", factor = 8.0, ... }: the members that differ from their defaults.
std::string text_of(const RopeScaling& rope);

// What a table lacks or contradicts; empty: nothing.
std::string problem_of(const RopeScaling& rope);

}  // namespace trireme
