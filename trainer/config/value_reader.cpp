#include "trainer/config/value_reader.h"

#include <cmath>
#include <sstream>

#include "model/base/error.h"
#include "trainer/config/hints.h"
#include "trainer/config/local_path.h"

namespace trireme {
namespace {

std::string type_of(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::string:
      return "text";
    case toml::node_type::integer:
      return "an integer";
    case toml::node_type::floating_point:
      return "a number";
    case toml::node_type::boolean:
      return "true or false";
    case toml::node_type::array:
      return "a list";
    case toml::node_type::table:
      return "a table";
    default:
      return "a date or time";
  }
}

bool is_inside(const Range& range, double x) {
  if (!std::isfinite(x)) return false;
  return (range.above ? x > range.least : x >= range.least) &&
         (range.below ? x < range.most : x <= range.most);
}

std::string whole_number_words(double value) {
  constexpr double kMost = 9e15;
  const bool is_whole = std::abs(value) <= kMost && std::trunc(value) == value;
  return is_whole ? say("must be an integer: write ", static_cast<std::int64_t>(value),
                        ", without a point or an exponent")
                  : "must be an integer, without a fraction";
}

}  // namespace

std::string shown(const toml::node& node) {
  if (const auto* text = node.as_string()) return shown(to_toml(text->get()));
  if (const auto* number = node.as_floating_point()) return to_toml(number->get());
  std::ostringstream out;
  node.visit([&out](const auto& value) { out << value; });
  return shown(out.str());
}

std::string quoted_list(const std::vector<std::string>& words) {
  std::string list;
  for (const std::string& word : words) list += (list.empty() ? "" : ", ") + to_toml(word);
  return list;
}

std::optional<bool> ValueReader::boolean(const toml::node& node) {
  if (const auto* value = node.as_boolean()) return value->get();
  wrong_type(node, "true or false");
  return std::nullopt;
}

std::optional<std::int64_t> ValueReader::integer(const toml::node& node, const Range& range) {
  const auto* value = node.as_integer();
  if (const auto* real = node.as_floating_point()) {
    complain(node, whole_number_words(real->get()));
  } else if (value == nullptr) {
    wrong_type(node, "an integer");
  } else if (!is_inside(range, static_cast<double>(value->get()))) {
    complain(node, "must be " + range_words(range));
  } else {
    return value->get();
  }
  return std::nullopt;
}

std::optional<double> ValueReader::number(const toml::node& node, const Range& range) {
  std::optional<double> value;
  if (const auto* real = node.as_floating_point()) value = real->get();
  if (const auto* whole = node.as_integer()) value = static_cast<double>(whole->get());
  if (!value) {
    wrong_type(node, "a number");
  } else if (!std::isfinite(*value)) {
    complain(node, "must be finite");
    value.reset();
  } else if (!is_inside(range, *value)) {
    complain(node, "must be " + range_words(range));
    value.reset();
  }
  return value;
}

std::optional<std::filesystem::path> ValueReader::path(const toml::node& node) {
  const auto* value = node.as_string();
  if (value == nullptr) {
    wrong_type(node, "a path in quotes");
  } else if (value->get().empty()) {
    complain(node, "must not be empty");
  } else if (value->get().find('\0') != std::string::npos) {
    complain(node, "a path cannot contain a NUL character");
  } else if (const LocalPath local = local_path(value->get()); !local.problem.empty()) {
    complain(node, local.problem);
  } else if (option_.stays_relative) {
    return std::filesystem::path(local.path);
  } else {
    return (folder_ / local.path).lexically_normal();
  }
  return std::nullopt;
}

const std::string* ValueReader::text(const toml::node& node, std::string_view wanted) {
  if (const auto* value = node.as_string()) return &value->get();
  wrong_type(node, wanted);
  return nullptr;
}

const toml::array* ValueReader::list(const toml::node& node, std::string_view wanted) {
  if (!node.is_array()) wrong_type(node, wanted);
  return node.as_array();
}

const toml::table* ValueReader::table(const toml::node& node, std::string_view wanted) {
  if (!node.is_table()) wrong_type(node, wanted);
  return node.as_table();
}

void ValueReader::complain(const toml::node& node, std::string what) {
  findings_.push_back({part_, shown(node), std::move(what), node.source().begin});
}

void ValueReader::wrong_type(const toml::node& node, std::string_view wanted) {
  complain(node, say("must be ", wanted, ", not ", type_of(node)));
}

void ValueReader::not_allowed(const toml::node& node, const std::string& text,
                              const std::vector<std::string>& allowed) {
  std::string what = say("must be one of ", quoted_list(allowed));
  if (option_.or_step) what += " or a step number";
  if (option_.or_path) what += " or the path of a file, with a dot or a slash in it";
  const std::string near = nearest_value(text, allowed);
  complain(node, near.empty() ? what : say(what, "; did you mean ", to_toml(near), "?"));
}

void ValueReader::unknown(const toml::key& key, const toml::node& value,
                          const std::vector<std::string>& known) {
  const std::string near = nearest(key.str(), known);
  const std::string hint =
      near.empty() ? say("it may have ", quoted_list(known)) : say("did you mean ", near, "?");
  findings_.push_back({part_, shown(value), "unknown key; " + hint, key.source().begin});
}

}  // namespace trireme
