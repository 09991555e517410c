#pragma once
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "trainer/config/run_config.h"

namespace trireme {

// Pointer to the RunConfig member of a key.
using Slot =
    std::variant<bool*, std::int64_t*, double*, std::string*, std::filesystem::path*,
                 std::vector<std::int64_t>*, std::vector<std::string>*, std::vector<LayerType>*,
                 std::vector<DataSource>*, std::vector<DataStage>*, std::vector<data::SampleRange>*,
                 std::vector<BatchSize>*, Activation*, Recompute*, CompressionOptions::Method*,
                 ContextMethod*, RopeScaling*>;

// Effect of a changed value on a run that resumes from a checkpoint.
enum class Effect {
  kBookkeeping,  // no effect on training
  kLayout,       // parallel layout only
  kPerformance,  // speed or memory only
  kNumerics,     // changes numerics
  kData,         // changes the training data
};

struct Range {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool above = false;  // `least` itself is not allowed
  bool below = false;  // `most` itself is not allowed
};

// Definition of one config key. Reading, checking, printing and the reference use this table, so a
// new key needs a member of RunConfig and one entry.
struct Option {
  std::string key;  // "optimizer.lr"
  Slot (*slot)(RunConfig&) = nullptr;
  std::string help;  // one line
  Effect effect = Effect::kBookkeeping;
  Range range = {};                       // for numbers
  std::vector<std::string> allowed = {};  // for text; empty: any
  bool or_step = false;                   // a step number is also allowed
  bool or_path = false;                   // a path is also allowed
  bool stays_relative = false;            // path is not resolved against the config file
  std::string unit = {};                  // "tokens"
  std::string default_text = {};          // if the default is not a constant
  std::vector<std::string> aliases = {};  // other names for the last part of the key
  std::function<bool(const RunConfig&)> applies = {};  // empty: always

  std::string section() const { return key.substr(0, key.find('.')); }
  std::string name() const { return key.substr(key.find('.') + 1); }
  bool is_switch() const;
};

// All keys by section, in printing order.
const std::vector<Option>& options();

// Finds a key or alias ("parallelism.tensor_parallel_degree"); null if unknown.
const Option* find_option(std::string_view key);

// In the order of the table.
std::vector<std::string> sections();

}  // namespace trireme
