#include "trainer/loop/run_state.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>

#include "trainer/engine/weights_hash.h"

namespace trireme {
namespace {

// What a run of a parameter's elements, in memory of the host, is of the tensor that goes by
// the parameter's name.
void add_pieces(std::vector<checkpoint::Piece>& pieces, const std::string& prefix,
                const Param& param, std::int64_t first, const Tensor& run) {
  for (const BoxOfRun& part : boxes_of_run(param.box, first, run.count())) {
    pieces.push_back({.tensor = prefix + param.spec.name,
                      .dtype = run.dtype,
                      .shape = param.spec.shape,
                      .box = part.box,
                      .data = run.slice(part.at, part.box.extent.count()).data});
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
    throw CheckpointError(say(loaded.folder.string(), ": ", part, ".", key,
                              " is missing or of the wrong type: written by another program?"));
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
    throw CheckpointError(
        say(loaded.folder.string(), ": digests.", key, " = \"", text, "\" is not a number's bits"));
  }
  return std::bit_cast<double>(value);
}

// A seal is no proof: what another program has sealed may have any values.
template <class T>
void require_range(const checkpoint::Loaded& loaded, const char* key, T value, bool holds,
                   const char* wanted) {
  if (holds) return;
  throw CheckpointError(say(loaded.folder.string(), ": ", key, " = ", value, " is not ", wanted,
                            ": it is damaged or written by another program; remove it, and the "
                            "run goes on from the one before"));
}

void require_ranges(const checkpoint::Loaded& loaded, const RunProgress& progress,
                    std::uint64_t position) {
  constexpr std::int64_t kMost = std::int64_t{1} << 53;  // what every JSON reader holds exactly
  constexpr const char* kCount = "a whole number from 0 to 2^53";
  const auto is_count = [](std::int64_t value) { return value >= 0 && value <= kMost; };
  require_range(loaded, "data.samples", position, position <= std::uint64_t{kMost}, kCount);
  require_range(loaded, "data.tokens", progress.tokens, is_count(progress.tokens), kCount);
  require_range(loaded, "scalars.optimizer_step", progress.step,
                progress.step == loaded.manifest.step, "the checkpoint's step");
  if (progress.step == 0) return;  // imported weights have no loss that anybody knows of
  require_range(loaded, "digests.loss", progress.loss, std::isfinite(progress.loss),
                "a finite number");
  require_range(loaded, "digests.grad_norm", progress.grad_norm,
                std::isfinite(progress.grad_norm) && progress.grad_norm >= 0,
                "a finite number from 0 on");
}

template <class Keeper>
void read_scalars(Keeper& keeper, const checkpoint::Loaded& loaded, bool counts) {
  try {
    keeper.read(loaded.manifest.scalars, counts);
  } catch (const nlohmann::json::exception& why) {
    throw CheckpointError(say(loaded.folder.string(), ": scalars: ", why.what()));
  }
}

}  // namespace

std::vector<checkpoint::Piece> weight_pieces(const ParamStore& params, const Tensor& masters) {
  std::vector<checkpoint::Piece> pieces;
  for (const ParamStore::Owned& owned : params.owned()) {
    add_pieces(pieces, "model/", *owned.param, owned.first,
               masters.slice(params.in_masters(owned), owned.count));
  }
  return pieces;
}

std::vector<checkpoint::Piece> state_pieces(Engine& engine) {
  const HostState& state = engine.host_state();
  const ParamStore& params = engine.params();
  std::vector<checkpoint::Piece> pieces;
  for (const ParamStore::Owned& owned : params.owned()) {
    add_pieces(pieces, "model/", *owned.param, owned.first,
               state.masters().slice(params.in_masters(owned), owned.count));
  }
  const auto& states = engine.model().optimizer().states();
  for (std::size_t i = 0; i < states.size(); ++i) {
    for (const ShardedOptimizer::State::Part& part : states[i].parts) {
      add_pieces(pieces, states[i].name + "/", *part.of->param, part.of->first,
                 state.state(i).slice(part.at, part.of->count));
    }
  }
  return pieces;
}

std::string weights_hash_text(Engine& engine, Communicator& ranks) {
  engine.host_state().download(engine.stream());
  return weights_hash_text(weights_hash(engine.params(), engine.host_state().masters(), ranks));
}

std::string weights_hash_text(std::uint64_t hash) {
  return fmt::format("{:016x}", hash);
}

void require_weights(const checkpoint::Loaded& loaded, Engine& engine, Communicator& ranks) {
  const std::string stored = read_progress(loaded).weights;
  const std::string found = weights_hash_text(engine, ranks);
  if (found == stored) return;
  throw CheckpointError(say(loaded.folder.string(), ": its weights have the hash ", found,
                            ", those of the run that wrote it ", stored));
}

void write_progress(const RunProgress& progress, const data::SampleSource& source,
                    checkpoint::Snapshot& snapshot) {
  snapshot.step = progress.step;
  const std::uint64_t position = progress.position();
  snapshot.data = {{"samples", position},
                   {"tokens", progress.tokens},
                   {"samples_of_source", source.consumed(position)},
                   {"left_out", ranges_json(progress.left_out.before(position))},
                   {"fingerprint", source.fingerprint()}};
  snapshot.scalars = {{"optimizer_step", progress.step}};
  snapshot.digests = {{"loss", bits(progress.loss)}, {"grad_norm", bits(progress.grad_norm)}};
}

RunProgress read_progress(const checkpoint::Loaded& loaded) {
  const nlohmann::json& data = loaded.manifest.data;
  const auto position = member<std::uint64_t>(loaded, data, "data", "samples");
  data::LeftOut left_out;
  if (data.contains("left_out")) {  // of earlier versions, which left nothing out, not
    using Ranges = std::vector<std::array<std::uint64_t, 2>>;
    for (const auto& [first, end] : member<Ranges>(loaded, data, "data", "left_out")) {
      left_out.add({first, end});
    }
  }
  if (left_out != left_out.before(position)) {
    throw CheckpointError(say(loaded.folder.string(), ": data.left_out goes beyond data.samples"));
  }
  const RunProgress progress{
      .step = member<std::int64_t>(loaded, loaded.manifest.scalars, "scalars", "optimizer_step"),
      .samples = position - left_out.count(),
      .left_out = left_out,
      .tokens = member<std::int64_t>(loaded, data, "data", "tokens"),
      .loss = from_bits(loaded, "loss"),
      .grad_norm = from_bits(loaded, "grad_norm"),
      .weights = member<std::string>(loaded, loaded.manifest.digests, "digests", "weights")};
  require_ranges(loaded, progress, position);
  return progress;
}

void read_guard(StepGuard& guard, const checkpoint::Loaded& loaded, bool counts) {
  read_scalars(guard, loaded, counts);
}

void read_scaler(LossScaler& scaler, const checkpoint::Loaded& loaded, bool counts) {
  read_scalars(scaler, loaded, counts);
}

std::string data_fingerprint(const checkpoint::Loaded& loaded) {
  return member<std::string>(loaded, loaded.manifest.data, "data", "fingerprint");
}

}  // namespace trireme
