#include "trainer/loop/train_state.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>

#include "trainer/engine/weights_hash.h"

namespace trireme {
namespace {

// Adds the boxes of the logical tensor that a shard covers; `range` is one of its tensors, in host
// memory.
void add_pieces(std::vector<checkpoint::Piece>& pieces, const std::string& prefix,
                const ParamShard& shard, const Tensor& range) {
  const Param& param = *shard.param;
  for (const BoxOfRun& part : boxes_of_run(param.box, shard.first, shard.count())) {
    pieces.push_back({.tensor = prefix + param.spec.name,
                      .dtype = range.dtype,
                      .shape = param.spec.shape,
                      .box = part.box,
                      .data = range.slice(part.at, part.box.extent.count()).data});
  }
}

std::string bits(double value) {
  return fmt::format("{:016x}", std::bit_cast<std::uint64_t>(value));
}

template <class T>
T member(const checkpoint::Loaded& loaded, const nlohmann::json& object, const char* part,
         const char* key) {
  try {
    return object.at(key).get<T>();
  } catch (const nlohmann::json::exception&) {
    throw CheckpointError(
        say(loaded.folder.string(), ": ", part, ".", key,
            " is missing or has the wrong type: was it written by another program?"));
  }
}

nlohmann::json ranges_json(const data::LeftOut& left_out) {
  nlohmann::json list = nlohmann::json::array();
  for (const data::SampleRange& range : left_out.ranges()) {
    list.push_back({range.first, range.end});
  }
  return list;
}

double from_bits(const checkpoint::Loaded& loaded, const char* key) {
  const auto text = member<std::string>(loaded, loaded.manifest.digests, "digests", key);
  std::size_t used = 0;
  std::uint64_t value = 0;
  try {
    value = std::stoull(text, &used, 16);
  } catch (const std::exception&) {
    used = 0;
  }
  if (used != 16) {
    throw CheckpointError(say(loaded.folder.string(), ": digests.", key, " = \"", text,
                              "\" is not the bits of a number"));
  }
  return std::bit_cast<double>(value);
}

// A valid checksum does not bound the values: another program may have written them.
template <class T>
void require_range(const checkpoint::Loaded& loaded, const char* key, T value, bool holds,
                   const char* wanted) {
  if (holds) return;
  throw CheckpointError(say(loaded.folder.string(), ": ", key, " = ", value, " is not ", wanted,
                            ": it is damaged or was written by another program; remove it to "
                            "resume from the checkpoint before"));
}

void require_ranges(const checkpoint::Loaded& loaded, const TrainState& state,
                    std::uint64_t position) {
  constexpr std::int64_t kMax = std::int64_t{1} << 53;  // exact in every JSON reader
  constexpr const char* kCount = "a whole number from 0 to 2^53";
  const auto is_count = [](std::int64_t value) { return value >= 0 && value <= kMax; };
  require_range(loaded, "data.samples", position, position <= std::uint64_t{kMax}, kCount);
  require_range(loaded, "data.tokens", state.tokens, is_count(state.tokens), kCount);
  require_range(loaded, "scalars.optimizer_step", state.step, state.step == loaded.manifest.step,
                "the checkpoint's step");
  if (state.step == 0) return;  // imported weights have no loss
  require_range(loaded, "digests.loss", state.loss, std::isfinite(state.loss), "a finite number");
  require_range(loaded, "digests.grad_norm", state.grad_norm,
                std::isfinite(state.grad_norm) && state.grad_norm >= 0,
                "a finite number of at least 0");
}

}  // namespace

std::vector<checkpoint::Piece> weight_pieces(const ParamStore& params, const HostMirror& masters) {
  std::vector<checkpoint::Piece> pieces;
  for (const ParamShard& shard : params.shards()) {
    add_pieces(pieces, "model/", shard, masters.host(shard.master));
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
  engine.host_state().download(engine.stream());
  return weights_hash_text(
      weights_hash(engine.model().params(), engine.host_state().masters(), ranks));
}

std::string weights_hash_text(std::uint64_t hash) {
  return fmt::format("{:016x}", hash);
}

void require_weights(const checkpoint::Loaded& loaded, Engine& engine, Communicator& ranks) {
  const std::string stored = read_state(loaded).weights;
  const std::string found = weights_hash_text(engine, ranks);
  if (found == stored) return;
  throw CheckpointError(say(loaded.folder.string(), ": its weights have the hash ", found,
                            ", but the run that wrote them had ", stored));
}

void write_state(const TrainState& state, const data::SampleSource& source,
                 checkpoint::Snapshot& snapshot) {
  snapshot.step = state.step;
  const std::uint64_t position = state.position();
  snapshot.data = {{"samples", position},
                   {"tokens", state.tokens},
                   {"samples_of_source", source.consumed(position)},
                   {"left_out", ranges_json(state.left_out.before(position))},
                   {"fingerprint", source.fingerprint()}};
  snapshot.scalars = {{"optimizer_step", state.step}};
  snapshot.digests = {{"loss", bits(state.loss)}, {"grad_norm", bits(state.grad_norm)}};
}

TrainState read_state(const checkpoint::Loaded& loaded) {
  const nlohmann::json& data = loaded.manifest.data;
  const auto position = member<std::uint64_t>(loaded, data, "data", "samples");
  data::LeftOut left_out;
  if (data.contains("left_out")) {  // absent in earlier versions, which left nothing out
    using Ranges = std::vector<std::array<std::uint64_t, 2>>;
    for (const auto& [first, end] : member<Ranges>(loaded, data, "data", "left_out")) {
      left_out.add({first, end});
    }
  }
  if (left_out != left_out.before(position)) {
    throw CheckpointError(say(loaded.folder.string(), ": data.left_out goes beyond data.samples"));
  }
  const TrainState state{
      .step = member<std::int64_t>(loaded, loaded.manifest.scalars, "scalars", "optimizer_step"),
      .samples = position - left_out.count(),
      .left_out = left_out,
      .tokens = member<std::int64_t>(loaded, data, "data", "tokens"),
      .loss = from_bits(loaded, "loss"),
      .grad_norm = from_bits(loaded, "grad_norm"),
      .weights = member<std::string>(loaded, loaded.manifest.digests, "digests", "weights")};
  require_ranges(loaded, state, position);
  return state;
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

std::string data_fingerprint(const checkpoint::Loaded& loaded) {
  return member<std::string>(loaded, loaded.manifest.data, "data", "fingerprint");
}

}  // namespace trireme
