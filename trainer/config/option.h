#pragma once
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "trainer/config/run_config.h"

namespace trireme {

// The member of a RunConfig that a key sets.
using Slot =
    std::variant<bool*, std::int64_t*, double*, std::string*, std::filesystem::path*,
                 std::vector<std::int64_t>*, std::vector<std::string>*, std::vector<DataSource>*,
                 std::vector<DataStage>*, std::vector<data::SampleRange>*, std::vector<BatchSize>*,
                 ActivationKind*, RopeScaling*>;

// What a changed value means for a run that goes on from a checkpoint.
enum class Effect {
  kBookkeeping,  // nothing the model sees
  kLayout,       // who computes what
  kPerformance,  // how fast, how much memory
  kNumerics,     // what the steps compute
  kData,         // what the steps are trained on
};

struct Range {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool above = false;  // `least` itself is not allowed
  bool below = false;  // `most` itself is not allowed
};

// Everything there is to know about one key of the config. Reading, checking, printing
// and the reference walk the same table, so a key is a member and one entry in it.
struct Option {
  std::string key;  // "optimizer.lr"
  Slot (*slot)(RunConfig&) = nullptr;
  std::string help;  // one line
  Effect effect = Effect::kBookkeeping;
  Range range = {};                             // of numbers
  std::vector<std::string> allowed = {};        // of text; empty: any
  bool or_step = false;                         // besides `allowed`, a step number
  bool or_path = false;                         // besides `allowed`, a path
  bool stays_relative = false;                  // a path that is not relative to the config file
  std::string unit = {};                        // "tokens"
  std::string default_text = {};                // where the default is not a constant
  std::vector<std::string> aliases = {};        // other names for the last part of the key
  bool (*applies)(const RunConfig&) = nullptr;  // null: always

  std::string section() const { return key.substr(0, key.find('.')); }
  std::string name() const { return key.substr(key.find('.') + 1); }
  bool is_switch() const;
};

// Section by section, in the order they are printed.
const std::vector<Option>& options();

// By key or alias ("parallelism.tensor_parallel_degree"); null if there is none.
const Option* find_option(std::string_view key);

// In the order of the table.
std::vector<std::string> sections();

}  // namespace trireme
