#include "trainer/config/rope_members.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "model/base/error.h"
#include "trainer/config/value_text.h"

namespace trireme {
namespace {

using Type = RopeScaling::Type;

constexpr Range kPositive{.least = 0, .most = 1e6, .above = true};

std::string member_text(double value) {
  return to_toml(value);
}
std::string member_text(std::int64_t value) {
  return std::to_string(value);
}
std::string member_text(bool value) {
  return value ? "true" : "false";
}
std::string member_text(const std::vector<double>& values) {
  std::vector<std::string> texts;
  for (const double value : values) texts.push_back(to_toml(value));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

}  // namespace

bool RopeMember::is_of(Type type) const {
  return std::find(types.begin(), types.end(), type) != types.end();
}

const std::vector<RopeMember>& rope_members() {
  static const std::vector<RopeMember> kAll{
      {"factor",
       &RopeScaling::factor,
       {.least = 1, .most = 1e6},
       {Type::kLinear, Type::kDynamic, Type::kYarn, Type::kLongRope, Type::kLlama3}},
      {"low_freq_factor", &RopeScaling::low_freq_factor, kPositive, {Type::kLlama3}},
      {"high_freq_factor", &RopeScaling::high_freq_factor, kPositive, {Type::kLlama3}},
      {"original_max_position_embeddings",
       &RopeScaling::original_max_position_embeddings,
       {.least = 1, .most = 16777216},
       {Type::kYarn, Type::kLongRope, Type::kLlama3}},
      {"beta_fast", &RopeScaling::beta_fast, kPositive, {Type::kYarn}},
      {"beta_slow", &RopeScaling::beta_slow, kPositive, {Type::kYarn}},
      {"truncate", &RopeScaling::truncate, {}, {Type::kYarn}},
      {"attention_factor",
       &RopeScaling::attention_factor,
       kPositive,
       {Type::kYarn, Type::kLongRope}},
      {"mscale", &RopeScaling::mscale, kPositive, {Type::kYarn}},
      {"mscale_all_dim", &RopeScaling::mscale_all_dim, kPositive, {Type::kYarn}},
      {"short_factor", &RopeScaling::short_factor, kPositive, {Type::kLongRope}},
      {"long_factor", &RopeScaling::long_factor, kPositive, {Type::kLongRope}}};
  return kAll;
}

const RopeMember* find_rope_member(std::string_view name) {
  for (const RopeMember& member : rope_members()) {
    if (name == member.name) return &member;
  }
  return nullptr;
}

std::vector<std::string> rope_member_names() {
  std::vector<std::string> names{"rope_type"};
  for (const RopeMember& member : rope_members()) names.emplace_back(member.name);
  return names;
}

std::vector<std::string> rope_type_names() {
  return {kRopeTypeNames.begin(), kRopeTypeNames.end()};
}

std::string text_of(const RopeScaling& rope) {
  const RopeScaling unset{.type = rope.type};
  std::string text = say("{ rope_type = ", to_toml(name_of_value(rope.type)));
  for (const RopeMember& member : rope_members()) {
    std::visit(
        [&](auto pointer) {
          if (rope.*pointer == unset.*pointer || !member.is_of(rope.type)) return;
          text += say(", ", member.name, " = ", member_text(rope.*pointer));
        },
        member.pointer);
  }
  return text + " }";
}

std::string problem_of(const RopeScaling& rope) {
  const bool has_factors = !rope.short_factor.empty() && !rope.long_factor.empty();
  if (rope.type == Type::kLongRope) {
    return has_factors ? "" : "needs short_factor and long_factor, a number for each rotated pair";
  }
  if (rope.type != Type::kDefault && rope.factor == 1) return "needs a factor above 1";
  if (rope.type == Type::kLlama3 && rope.high_freq_factor <= rope.low_freq_factor) {
    return "high_freq_factor must be above low_freq_factor";
  }
  if (rope.type == Type::kLlama3 && rope.original_max_position_embeddings == 0) {
    return "needs original_max_position_embeddings";
  }
  if (rope.type == Type::kYarn && rope.beta_fast <= rope.beta_slow) {
    return "beta_fast must be above beta_slow";
  }
  return "";
}

}  // namespace trireme
