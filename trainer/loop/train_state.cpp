#include "trainer/loop/train_state.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/base/hex.h"
#include "model/base/json.h"
#include "trainer/config/sequence_length.h"
#include "trainer/engine/weights_hash.h"

namespace trireme {
namespace {

// Adds the boxes of the logical tensor that a shard covers; `range` is one of its tensors, in host
// memory.
void add_pieces(std::vector<checkpoint::Piece>& pieces, std::string_view prefix,
                const ParamShard& shard, const Tensor& range) {
  const Param& param = *shard.param;
  for (const BoxOfRun& part : boxes_of_run(param.box, shard.first, shard.count())) {
    pieces.push_back({.tensor = std::string(prefix) + param.spec.name,
                      .dtype = range.dtype,
                      .shape = param.spec.shape,
                      .box = part.box,
                      .data = range.slice(part.at, part.box.extent.count()).data});
  }
}

// Parts of a checkpoint; other programs may add keys.
struct DataPart {
  std::uint64_t samples = 0;  // the position
  std::int64_t tokens = 0;
  std::vector<std::uint64_t> samples_of_source;
  std::vector<data::SampleRange> left_out;
  std::string fingerprint;
};
void json_fields(auto& f, DataPart& part) {
  f("samples", part.samples, {.most = kMostJsonNumber});
  f("tokens", part.tokens, {.most = kMostJsonNumber});
  if (!f.kReads) f("samples_of_source", part.samples_of_source);
  // Absent in earlier versions, which left nothing out.
  if (f.has("left_out")) f("left_out", part.left_out);
  f("fingerprint", part.fingerprint);
}

struct DigestPart {
  double loss = 0, grad_norm = 0;
  std::string weights = {};
};
void json_fields(auto& f, DigestPart& part) {
  f.hex("loss", part.loss);
  f.hex("grad_norm", part.grad_norm);
  if (f.kReads) f("weights", part.weights);  // added when they are known
}

// A valid checksum does not bound the values: another program may have written them.
[[noreturn]] void refuse(const std::string& why) {
  throw CheckpointError(say(why,
                            ": it is damaged or was written by another program; remove it to "
                            "resume from the checkpoint before"));
}

template <class Part>
Part part_of(const checkpoint::Loaded& loaded, const char* name, const nlohmann::json& object) {
  try {
    Part part;
    read_json_value(object, part, {}, JsonKeys::kAny);
    return part;
  } catch (JsonProblem& problem) {
    problem.prepend(name);
    refuse(problem.text(loaded.folder.string()));
  }
}

DataPart data_of(const checkpoint::Loaded& loaded) {
  return part_of<DataPart>(loaded, "data", loaded.manifest.data);
}

}  // namespace

std::vector<checkpoint::Piece> weight_pieces(const ParamStore& params, const HostMirror& masters,
                                             std::string_view prefix) {
  std::vector<checkpoint::Piece> pieces;
  for (const ParamShard& shard : params.shards()) {
    add_pieces(pieces, prefix, shard, masters.host(shard.master));
  }
  return pieces;
}

std::vector<checkpoint::Piece> state_pieces(Engine& engine) {
  const HostState& host = engine.host_state();
  std::vector<checkpoint::Piece> pieces = weight_pieces(engine.model().params(), host.masters());
  const auto& states = engine.model().optimizer().states();
  for (std::size_t i = 0; i < states.size(); ++i) {
    for (const ParamShard* shard : states[i].shards) {
      add_pieces(pieces, states[i].name + "/", *shard, host.state(i).host(states[i].of(*shard)));
    }
  }
  return pieces;
}

std::string weights_hash_text(Engine& engine, Communicator& ranks) {
  return hex(weights_hash(engine.model().params(), engine.stream(), ranks));
}

void require_weights(const checkpoint::Loaded& loaded, Engine& engine, Communicator& ranks) {
  const std::string stored = read_state(loaded).weights;
  const std::string found = weights_hash_text(engine, ranks);
  if (found == stored) return;
  throw CheckpointError(say(loaded.folder.string(), ": its weights have the hash ", found,
                            ", but the run that wrote them had ", stored));
}

checkpoint::Snapshot initial_snapshot(std::string config) {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  checkpoint::Snapshot snapshot;
  snapshot.manifest.config = std::move(config);
  snapshot.manifest.data = as_json(DataPart{});
  snapshot.manifest.scalars = {{"optimizer_step", 0}};
  snapshot.manifest.digests = as_json(DigestPart{kUnknown, kUnknown});
  snapshot.add_digests = [](checkpoint::Manifest& complete) {
    complete.digests["weights"] = hex(weights_hash(complete));
  };
  return snapshot;
}

void write_state(const TrainState& state, const data::SampleSource& source,
                 checkpoint::Manifest& manifest) {
  manifest.step = state.step;
  const std::uint64_t position = state.position();
  manifest.data = as_json(DataPart{.samples = position,
                                   .tokens = state.tokens,
                                   .samples_of_source = source.consumed(position),
                                   .left_out = state.left_out.before(position).ranges(),
                                   .fingerprint = source.fingerprint()});
  manifest.scalars = {{"optimizer_step", state.step}};
  manifest.digests = as_json(DigestPart{state.loss, state.grad_norm});
}

TrainState read_state(const checkpoint::Loaded& loaded) {
  const checkpoint::Manifest& manifest = loaded.manifest;
  const DataPart data = data_of(loaded);
  const auto digests = part_of<DigestPart>(loaded, "digests", manifest.digests);
  const TrainState state{.step = manifest.step,
                         .samples = data.samples - data::LeftOut(data.left_out).count(),
                         .left_out = data::LeftOut(data.left_out),
                         .tokens = data.tokens,
                         .loss = digests.loss,
                         .grad_norm = digests.grad_norm,
                         .weights = digests.weights};
  const auto require_part = [&](bool holds, const std::string& why) {
    if (!holds) refuse(say(loaded.folder.string(), ": ", why));
  };
  require_part(json_at<std::int64_t>(manifest.scalars, "optimizer_step") == state.step,
               say("scalars.optimizer_step = ",
                   json_text(manifest.scalars.value("optimizer_step", nlohmann::json())),
                   " is not the checkpoint's step"));
  require_part(state.left_out == state.left_out.before(data.samples),
               "data.left_out goes beyond data.samples");
  if (state.step == 0) return state;  // imported weights have no loss
  require_part(std::isfinite(state.loss),
               say("digests.loss = ", state.loss, " is not a finite number"));
  require_part(
      std::isfinite(state.grad_norm) && state.grad_norm >= 0,
      say("digests.grad_norm = ", state.grad_norm, " is not a finite number of at least 0"));
  return state;
}

RunConfig config_of_last_step(const RunConfig& config, const std::filesystem::path& folder,
                              const checkpoint::Manifest& manifest) {
  const std::vector<SequenceLength> lengths = sequence_lengths(config);
  if (lengths.size() == 1) return config;
  const std::uint64_t end =
      read_state({.step = manifest.step, .folder = folder, .manifest = manifest, .rejected = {}})
          .end();
  return with_length(config, length_of(lengths, end == 0 ? 0 : end - 1));
}

void RecoveryState::write(nlohmann::json& scalars) const {
  guard.write(scalars);
  scaler.write(scalars);
}

void RecoveryState::read(const checkpoint::Loaded& loaded, bool counts) {
  try {
    guard.read(loaded.manifest.scalars, counts);
    scaler.read(loaded.manifest.scalars, counts);
  } catch (const nlohmann::json::exception& error) {
    throw CheckpointError(say(loaded.folder.string(), ": scalars: ", error.what()));
  }
}

bool has_average(const checkpoint::Manifest& manifest) {
  return std::any_of(manifest.tensors.begin(), manifest.tensors.end(), [](const auto& tensor) {
    return tensor.name.starts_with(checkpoint::kAveragePrefix);
  });
}

std::string data_fingerprint(const checkpoint::Loaded& loaded) {
  return data_of(loaded).fingerprint;
}

}  // namespace trireme
