#include "trainer/config/item_readers.h"

#include "model/base/error.h"
#include "trainer/config/metric_name.h"
#include "trainer/config/rope_members.h"

namespace trireme {
namespace {

// The two items of a list, nullptr if there are not two.
const toml::array* pair(ValueReader& reader, const toml::node& node, const char* wanted,
                        const char* items) {
  const toml::array* list = reader.list(node, wanted);
  if (list == nullptr || list->size() == 2) return list;
  reader.complain(node, say("must be ", items, ", not ", list->size()));
  return nullptr;
}

void read_source_name(ValueReader& reader, const toml::node& node, std::string& to) {
  const std::string* name = reader.text(node);
  if (name == nullptr) return;
  if (is_metric_name(*name)) {
    to = *name;
  } else {
    reader.complain(node, say("must be ", kMetricNameWords));
  }
}

std::optional<DataSource> read_source(ValueReader& reader, const toml::node& node) {
  const toml::table* table = reader.table(node, "a table, { path = \"PREFIX\", weight = 1.0 }");
  if (table == nullptr) return std::nullopt;
  std::vector<std::string> known{"path", "weight"};
  if (reader.option().key == "data.validation") known.emplace_back("name");
  DataSource source;
  if (!table->contains("path")) reader.complain(node, "needs a path");
  for (auto&& [key, value] : *table) {
    const ValueReader::Part part(reader, say(".", key.str()));
    if (key == "path") {
      source.path = reader.path(value).value_or("");
    } else if (key == "weight") {
      const Range positive{.least = 0, .most = 1e9, .above = true};
      source.weight = reader.number(value, positive).value_or(source.weight);
    } else if (key == "name" && known.back() == "name") {
      read_source_name(reader, value, source.name);
    } else {
      reader.unknown(key, value, known);
    }
  }
  return source;
}

void set(ValueReader& reader, const toml::node& node, const Range& range, std::int64_t* to) {
  if (const auto value = reader.integer(node, range)) *to = *value;
}
void set(ValueReader& reader, const toml::node& node, const Range& range, double* to) {
  if (const auto value = reader.number(node, range)) *to = *value;
}
void set(ValueReader& reader, const toml::node& node, const Range&, bool* to) {
  if (const auto value = reader.boolean(node)) *to = *value;
}
void set(ValueReader& reader, const toml::node& node, const Range& range, std::vector<double>* to) {
  const toml::array* list = reader.list(node, "a list of numbers");
  if (list == nullptr) return;
  std::vector<double> numbers;
  for (const toml::node& item : *list) {
    if (const auto value = reader.number(item, range)) numbers.push_back(*value);
  }
  *to = std::move(numbers);
}

void read_rope_type(ValueReader& reader, const toml::node& node, RopeScaling& rope) {
  const auto chosen = reader.choice<RopeScaling::Type>(node, rope_type_names());
  if (!chosen || *chosen == rope.type) return;
  rope = RopeScaling{.type = *chosen};
  if (*chosen == RopeScaling::Type::kLlama3) rope.original_max_position_embeddings = 8192;
}

void read_rope_members(ValueReader& reader, const toml::table& table, RopeScaling& rope) {
  for (const RopeMember& member : rope_members()) {
    const toml::node* const value = table.get(member.name);
    if (value == nullptr) continue;
    const ValueReader::Part part(reader, say(".", member.name));
    if (member.is_of(rope.type)) {
      std::visit([&](auto pointer) { set(reader, *value, member.range, &(rope.*pointer)); },
                 member.pointer);
    } else {
      reader.complain(*value, say("does not apply to rope_type ", to_toml(name_of_value(rope.type)),
                                  "; remove it"));
    }
  }
}

void refuse_unknown_rope_keys(ValueReader& reader, const toml::table& table) {
  for (auto&& [key, value] : table) {
    if (key == "rope_type" || find_rope_member(key.str())) continue;
    const ValueReader::Part part(reader, say(".", key.str()));
    // "type" is its older name in Hugging Face's configs.
    reader.unknown(key, value,
                   key == "type" ? std::vector<std::string>{"rope_type"} : rope_member_names());
  }
}

}  // namespace

std::optional<data::SampleRange> read_sample_range(ValueReader& reader, const toml::node& node) {
  const toml::array* ends =
      pair(reader, node, "a range, [first, end]", "two sample numbers, [first, end]");
  if (ends == nullptr) return std::nullopt;
  const auto first = reader.integer(*ends->get(0), reader.option().range);
  const auto end = reader.integer(*ends->get(1), reader.option().range);
  if (!first || !end) return std::nullopt;
  if (*first >= *end) {
    reader.complain(node, "is empty: its end must be above its first");
    return std::nullopt;
  }
  return data::SampleRange{static_cast<std::uint64_t>(*first), static_cast<std::uint64_t>(*end)};
}

std::optional<BatchSize> read_batch_size(ValueReader& reader, const toml::node& node) {
  const toml::array* both =
      pair(reader, node, "a pair, [from_step, sequences]", "two numbers, [from_step, sequences]");
  if (both == nullptr) return std::nullopt;
  const auto from_step = reader.integer(*both->get(0), {.least = 1, .most = 1e12});
  const auto sequences = reader.integer(*both->get(1), reader.option().range);
  if (!from_step || !sequences) return std::nullopt;
  return BatchSize{*from_step, *sequences};
}

std::optional<std::vector<DataSource>> read_sources(ValueReader& reader, const toml::node& node) {
  return reader.items(node, "a list, [{ path = \"PREFIX\", weight = 1.0 }, ...]",
                      [&](const toml::node& item) { return read_source(reader, item); });
}

std::optional<DataStage> read_stage(ValueReader& reader, const toml::node& node) {
  const toml::table* table = reader.table(node, "a table, { from_step = 1000, train = [...] }");
  if (table == nullptr) return std::nullopt;
  DataStage stage;
  if (!table->contains("from_step")) reader.complain(node, "needs from_step");
  if (!table->contains("train") && !table->contains("seq_len") &&
      !table->contains("rope_scaling")) {
    reader.complain(node, "changes nothing; it needs train, seq_len or rope_scaling");
  }
  for (auto&& [key, value] : *table) {
    const ValueReader::Part part(reader, say(".", key.str()));
    if (key == "from_step") {
      stage.from_step = reader.integer(value, reader.option().range).value_or(0);
    } else if (key == "train") {
      stage.train = read_sources(reader, value).value_or(stage.train);
      if (const toml::array* list = value.as_array(); list && list->empty()) {
        reader.complain(value, "no training data; give train = [{ path = \"PREFIX\" }]");
      }
    } else if (key == "seq_len") {
      stage.seq_len = reader.integer(value, find_option("training.seq_len")->range).value_or(0);
    } else if (key == "rope_scaling") {
      read_rope_scaling(reader, value, &stage.rope_scaling.emplace());
    } else {
      reader.unknown(key, value, {"from_step", "train", "seq_len", "rope_scaling"});
    }
  }
  return stage;
}

void read_rope_scaling(ValueReader& reader, const toml::node& node, RopeScaling* to) {
  const toml::table* table =
      reader.table(node, "a table, { rope_type = \"llama3\", factor = 8.0 }");
  if (table == nullptr) return;
  const std::size_t before = reader.findings();
  refuse_unknown_rope_keys(reader, *table);
  if (reader.findings() != before) return;
  const toml::node* const type = table->get("rope_type");
  if (to->type == RopeScaling::Type::kDefault && type == nullptr) {
    return reader.complain(node, say("needs rope_type, one of ", quoted_list(rope_type_names())));
  }
  RopeScaling rope = *to;
  if (type != nullptr) {
    const ValueReader::Part part(reader, ".rope_type");
    read_rope_type(reader, *type, rope);
  }
  read_rope_members(reader, *table, rope);
  if (reader.findings() != before) return;
  const std::string problem = problem_of(rope);
  if (!problem.empty()) return reader.complain(node, problem);
  *to = std::move(rope);
}

}  // namespace trireme
