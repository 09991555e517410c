#include "trainer/engine/replica_check.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <memory>

#include "model/device/copy.h"
#include "model/tensor/host_tensor.h"
#include "parallel/comm/team.h"

namespace trireme {
namespace {

// Bytes that are copied from a device to the host at a time.
constexpr std::size_t kWindow = std::size_t{8} << 20;

std::uint64_t hash_of(Stream& stream, const Tensor& bits) {
  if (!bits.device.is_cuda()) return XXH3_64bits(bits.data, bits.bytes());
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                       &XXH3_freeState);
  XXH3_64bits_reset(state.get());
  std::vector<std::byte> window(std::min(kWindow, bits.bytes()));
  for (std::size_t at = 0; at < bits.bytes(); at += kWindow) {
    const std::size_t count = std::min(kWindow, bits.bytes() - at);
    copy_bytes(stream, window.data(), bits.data + at, count);
    stream.synchronize();
    XXH3_64bits_update(state.get(), window.data(), count);
  }
  return XXH3_64bits_digest(state.get());
}

// "from:extent:first+count" of a range of elements of a parameter's box.
std::string place_of(const Box& box, std::int64_t first, std::int64_t count) {
  std::string text;
  for (const Shape& shape : {box.from, box.extent}) {
    for (int dim = 0; dim < shape.rank(); ++dim) text += fmt::format("{},", shape[dim]);
    text += ':';
  }
  return text + fmt::format("{}+{}", first, count);
}

// Whether all ranks of a group have the same hash. Collective over the group.
bool have_same(Communicator& group, std::uint64_t hash) {
  const auto high = static_cast<double>(hash >> 32);
  const auto low = static_cast<double>(hash & 0xffffffffu);
  std::array<double, 4> most{high, low, -high, -low};
  Stream stream;
  group.all_reduce(stream, host_tensor(std::span(most)), Reduce::kMax);
  return most[0] == -most[2] && most[1] == -most[3];
}

}  // namespace

ReplicaCheck::ReplicaCheck(Engine& engine, const RankGroups& groups, bool weights_in_common)
    : engine_(engine),
      ranks_(groups),
      groups_{groups.data.get(), groups.replicate.get(), groups.tensor.get(),
              groups.kv_replicas.get(), groups.embedding_group.get()} {
  if (groups.expert) {
    groups_.insert(groups_.end(), {groups.expert_data.get(), groups.expert_replicate.get()});
  }
  const ParamStore& params = engine.model().params();
  const auto flat = [](const Tensor& tensor) { return tensor.reshaped({tensor.count()}); };
  const auto has_own_ranks = [&](const Param& param) {
    return groups.expert && param.spec.group == ParamGroup::kExperts;
  };
  const auto same_shard = [&](const Param& param) {
    return has_own_ranks(param) ? groups.expert_replicate.get() : groups.replicate.get();
  };
  if (params.sharing().values) {
    for (const ParamShard& shard : params.shards()) {
      add("weights", *shard.param, shard.first, shard.value, {same_shard(*shard.param)});
    }
  } else if (!weights_in_common || groups.shard->rank() == 0) {
    Communicator* const holders = weights_in_common ? groups.replicate.get() : groups.data.get();
    for (const Weight& weight : params.weights()) {
      for (const Param& param : weight.parts) {
        add("weights", param, 0, flat(param.value),
            {has_own_ranks(param) ? groups.expert_data.get() : holders});
      }
    }
  }
  if (params.has_masters()) {
    for (const ParamShard& shard : params.shards()) {
      add("masters", *shard.param, shard.first, shard.master, {same_shard(*shard.param)});
    }
  }
  for (const ShardedOptimizer::State& state : engine.model().optimizer().states()) {
    for (const ParamShard* shard : state.shards) {
      add(state.name.c_str(), *shard->param, shard->first, state.of(*shard),
          {same_shard(*shard->param)});
    }
  }
}

void ReplicaCheck::add(const char* kind, const Param& param, std::int64_t first,
                       const Tensor& range, const std::vector<Communicator*>& groups) {
  if (range.count() == 0) return;
  std::vector<std::size_t> of;
  for (const auto& holders : {groups, model_parallel_replicas(param)}) {
    for (Communicator* const group : holders) {
      if (group->size() == 1) continue;
      of.push_back(static_cast<std::size_t>(std::find(groups_.begin(), groups_.end(), group) -
                                            groups_.begin()));
    }
  }
  if (of.empty()) return;
  copies_.push_back({fmt::format("{} ({})", param.spec.name, kind),
                     place_of(param.box, first, range.count()), range, std::move(of)});
}

// Tensor- or pipeline-parallel groups of which every rank holds the same part of the parameter.
std::vector<Communicator*> ReplicaCheck::model_parallel_replicas(const Param& param) const {
  std::vector<Communicator*> holders;
  const Slice replica = param.spec.cut.replica;
  for (Communicator* const group : {ranks_.tensor.get(), ranks_.kv_replicas.get()}) {
    if (replica.count == 1 || group->size() != replica.count) continue;
    holders.push_back(group);
    break;
  }
  if (engine_.spec().model.tie_word_embeddings && param.spec.name == ModelState::kEmbedding) {
    holders.push_back(ranks_.embedding_group.get());
  }
  return holders;
}

std::uint64_t ReplicaCheck::bytes() const {
  std::uint64_t bytes = 0;
  for (const Copy& copy : copies_) bytes += copy.bits.bytes();
  return bytes;
}

std::vector<bool> ReplicaCheck::groups_that_differ(const std::vector<std::uint64_t>& hashes) {
  std::vector<bool> differ;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    std::vector<std::uint64_t> shared;
    for (std::size_t i = 0; i < copies_.size(); ++i) {
      const std::vector<std::size_t>& of = copies_[i].groups;
      if (std::find(of.begin(), of.end(), g) != of.end()) shared.push_back(hashes[i]);
    }
    const std::uint64_t hash = XXH3_64bits(shared.data(), shared.size() * sizeof(shared[0]));
    differ.push_back(!have_same(*groups_[g], hash));
  }
  return differ;
}

std::optional<ReplicaVerdict> ReplicaCheck::find() {
  engine_.model().finish_publishing();
  std::vector<std::uint64_t> hashes;
  for (const Copy& copy : copies_) hashes.push_back(hash_of(engine_.stream(), copy.bits));
  const std::vector<bool> differ = groups_that_differ(hashes);
  std::array<double, 1> any{std::find(differ.begin(), differ.end(), true) == differ.end() ? 0.0
                                                                                          : 1.0};
  Stream stream;
  ranks_.all->all_reduce(stream, host_tensor(std::span(any)), Reduce::kMax);
  if (any[0] == 0) return std::nullopt;
  std::vector<HeldCopy> suspects;
  for (std::size_t i = 0; i < copies_.size(); ++i) {
    const Copy& copy = copies_[i];
    if (std::any_of(copy.groups.begin(), copy.groups.end(),
                    [&](std::size_t group) { return differ[group]; })) {
      suspects.push_back({copy.tensor, copy.place, hashes[i]});
    }
  }
  std::vector<std::vector<HeldCopy>> held;
  const Team team(*ranks_.all);
  for (const std::string& text : team.together([&] { return copies_text(suspects); })) {
    held.push_back(parse_copies(text));
  }
  return judge_replicas(held);
}

}  // namespace trireme
