#pragma once
#include <optional>
#include <vector>

#include "trainer/config/run_config.h"
#include "trainer/config/value_reader.h"

namespace trireme {

// Items of lists; nullopt if they are no such item at all.
std::optional<data::SampleRange> read_sample_range(ValueReader& reader, const toml::node& node);
std::optional<BatchSize> read_batch_size(ValueReader& reader, const toml::node& node);
std::optional<DataStage> read_stage(ValueReader& reader, const toml::node& node);

std::optional<std::vector<DataSource>> read_sources(ValueReader& reader, const toml::node& node);

// A table without a type changes members of the present one.
void read_rope_scaling(ValueReader& reader, const toml::node& node, RopeScaling* to);

}  // namespace trireme
