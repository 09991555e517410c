#include "checkpoint/saver.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "checkpoint/json_fields.h"
#include "checkpoint/names.h"
#include "checkpoint/shard_report.h"
#include "checkpoint/shard_writer.h"
#include "model/base/error.h"
#include "model/base/file.h"
#include "model/base/outcome.h"

namespace trireme::checkpoint {
namespace {

using nlohmann::json;

constexpr std::uint64_t kOverhead = 1u << 20;  // upper bound of HDF5's metadata and the manifest

// A request is served by the rank or by its writer's process: both see the pieces at the same
// addresses.
json shard_request(const std::filesystem::path& path, const hdf5::Origin& origin,
                   const SnapshotMemory::Copied& copied) {
  json memory = json::array();
  for (const Piece& piece : copied.pieces) {
    memory.push_back(reinterpret_cast<std::uintptr_t>(piece.data));
  }
  return {{"path", path.string()},       {"run", origin.run},
          {"step", origin.step},         {"pieces", as_json(copied.pieces)},
          {"memory", std::move(memory)}, {"blocks", copied.blocks}};
}

std::string write_requested_shard(const json& request) {
  auto pieces = json_value<std::vector<Piece>>(request["pieces"], "a request's pieces");
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    pieces[i].data = reinterpret_cast<std::byte*>(request["memory"][i].get<std::uintptr_t>());
  }
  const std::vector<std::vector<std::uint32_t>> blocks = request["blocks"];
  return json_text(write_shard(request["path"].get<std::string>(),
                               {request["run"], request["step"]}, pieces, blocks));
}

json commit_request(const std::filesystem::path& partial, const Manifest& manifest,
                    const std::vector<std::filesystem::path>& after_files,
                    const std::set<std::int64_t>& good, const std::optional<Retention>& retention) {
  json request{{"partial", partial.string()},  {"manifest", to_text(manifest)},
               {"after_files", json::array()}, {"good", good},
               {"keep_latest", nullptr},       {"keep_every", 0}};
  for (const auto& file : after_files) request["after_files"].push_back(file.string());
  if (retention) {
    request["keep_latest"] = retention->keep_latest;
    request["keep_every"] = retention->keep_every;
  }
  return request;
}

// `fence` throws where the lease is lost; a writer's process does not see it.
std::string commit_requested(const json& request, const std::function<void()>& fence) {
  const std::filesystem::path partial = request["partial"].get<std::string>();
  Manifest manifest = parse_manifest(request["manifest"].get<std::string>(), partial.string());
  for (const json& file : request["after_files"]) {
    File::open_write(file.get<std::string>()).sync();
  }
  complete(partial, manifest);
  fence();
  publish(partial, manifest.step);
  auto good = request["good"].get<std::set<std::int64_t>>();
  good.insert(manifest.step);
  json result{{"removed", json::array()}, {"not_removed", ""}};
  if (!request["keep_latest"].is_null()) {
    try {
      fence();
      result["removed"] = prune(list_checkpoints(partial.parent_path()), manifest.run,
                                {request["keep_latest"], request["keep_every"]}, good);
    } catch (const Error& error) {  // the checkpoint is already committed
      result["not_removed"] = error.what();
    }
  }
  result["good"] = good;
  return result.dump();
}

std::string serve(const json& request, const std::function<void()>& fence) {
  return request.contains("pieces") ? write_requested_shard(request)
                                    : commit_requested(request, fence);
}

}  // namespace

BackgroundWriter::BackgroundWriter(std::size_t most)
    : memory(most),
      process([](const std::string& request) { return serve(json::parse(request), [] {}); }) {}

Saver::Saver(Store& store, std::span<const Piece> pieces, BackgroundWriter* writer,
             std::optional<Retention> retention)
    : store_(store),
      writer_(writer),
      division_(divide(store.team(), pieces)),
      retention_(retention) {
  if (writer_) store_.team().together([&] { writer_->memory.reserve(division_.mine); });
}

void Saver::start(const json& request) {
  if (writer_) {
    writer_->process.start(request.dump());
  } else {
    result_ = serve(request, [&] { store_.require_lease(); });
  }
}

std::string Saver::result() {
  return writer_ ? writer_->process.result() : std::exchange(result_, {});
}

void Saver::begin(Snapshot snapshot) {
  require(!busy(), "a save is in progress");
  const std::int64_t step = snapshot.manifest.step;
  require(step >= 0, "a snapshot of step ", step);
  save_.emplace();
  save_->snapshot = std::move(snapshot);
  try {
    save_->folder = store_.team().led([&] {
      store_.require_lease();
      check_space(store_.folder(), division_.bytes + kOverhead);
      save_->partial = std::make_unique<PartialCheckpoint>(store_.folder(), step);
      return save_->partial->path().string();
    });
    store_.team().together([&] { start_shard(); });
  } catch (...) {
    if (writer_ && writer_->process.busy()) {
      outcome_of([&] { return writer_->process.result(); });
    }
    save_.reset();
    throw;
  }
}

void Saver::start_shard() {
  const auto rank = static_cast<std::size_t>(store_.team().rank());
  start(shard_request(
      save_->folder / shard_name(rank, division_.ranks.size()),
      {store_.run(), save_->snapshot.manifest.step},
      writer_ ? writer_->memory.copy(division_.mine) : SnapshotMemory::Copied{division_.mine, {}}));
}

bool Saver::waits() {
  if (!busy() || !writer_) return false;
  if (save_->has_shards && !store_.team().leads()) return false;
  return !writer_->process.done();
}

std::optional<Committed> Saver::advance() {
  require(busy(), "no save is in progress");
  try {
    if (save_->has_shards) return end();
    start_commit();
    return std::nullopt;
  } catch (...) {
    save_.reset();
    throw;
  }
}

void Saver::start_commit() {
  std::vector<WrittenShard> shards;
  for (const std::string& report : store_.team().together([&] { return result(); })) {
    shards.push_back(read_json<WrittenShard>(report, "a report of a shard"));
    save_->write_seconds = std::max(save_->write_seconds, shards.back().seconds);
  }
  store_.team().led([&] {
    store_.require_lease();  // fences a late writer
    Manifest manifest = store_.stamped(save_->snapshot.manifest);
    manifest.view.name = Manifest::kViewName;
    add_tables(manifest, division_.ranks, shards, save_->snapshot.add_digests);
    start(commit_request(save_->folder, manifest, save_->snapshot.after_files, store_.good(),
                         retention_));
  });
  save_->has_shards = true;
}

Committed Saver::end() {
  const json done = json::parse(store_.team().led([&] { return result(); }));
  const std::int64_t step = save_->snapshot.manifest.step;
  store_.set_committed(step, done["good"]);
  Committed committed{step,
                      store_.folder() / step_name(step),
                      division_.bytes,
                      save_->write_seconds,
                      done["removed"],
                      done["not_removed"]};
  save_.reset();
  return committed;
}

Committed Saver::finish() {
  while (true) {
    if (auto committed = advance()) return *std::move(committed);
  }
}

Committed Saver::save(Snapshot snapshot) {
  begin(std::move(snapshot));
  return finish();
}

}  // namespace trireme::checkpoint
