#include "checkpoint/store/saver.h"

#include <algorithm>
#include <set>
#include <utility>

#include "checkpoint/format/json_fields.h"
#include "checkpoint/format/names.h"
#include "checkpoint/format/shard_report.h"
#include "checkpoint/write/shard_writer.h"
#include "model/base/error.h"
#include "model/base/file.h"
#include "model/base/outcome.h"

namespace trireme::checkpoint {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::uint64_t kOverhead = 1u << 20;  // upper bound of HDF5's metadata and the manifest

// The request for this rank's shard: a writer's process has the copied pieces at the same
// addresses.
std::string shard_request(const fs::path& path, const hdf5::Origin& origin,
                          const SnapshotMemory::Copied& copied) {
  json memory = json::array();
  for (const Piece& piece : copied.pieces) {
    memory.push_back(reinterpret_cast<std::uintptr_t>(piece.data));
  }
  return json{{"path", path.string()},       {"run", origin.run},
              {"step", origin.step},         {"pieces", as_json(copied.pieces)},
              {"memory", std::move(memory)}, {"blocks", copied.blocks}}
      .dump();
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

// What the leader, or its writer's process, does once all shards are written.
struct CommitRequest {
  fs::path partial;
  Manifest manifest;
  std::vector<fs::path> after_files;
  std::set<std::int64_t> good;
  std::optional<Retention> retention;
};

// Completes, publishes and prunes. The store, if any, fences a late writer: a writer's process does
// not have its lease.
std::string commit(CommitRequest request, const Store* store) {
  for (const fs::path& file : request.after_files) File::open_write(file).sync();
  complete(request.partial, request.manifest);
  if (store) store->require_lease();
  publish(request.partial, request.manifest.step);
  request.good.insert(request.manifest.step);
  json result{{"removed", json::array()}, {"not_removed", ""}};
  if (request.retention) {
    try {
      if (store) store->require_lease();
      result["removed"] = prune(list_checkpoints(request.partial.parent_path()),
                                request.manifest.run, *request.retention, request.good);
    } catch (const Error& error) {  // the checkpoint is already committed
      result["not_removed"] = error.what();
    }
  }
  result["good"] = request.good;
  return result.dump();
}

std::string commit_request(const CommitRequest& request) {
  json files = json::array();
  for (const fs::path& file : request.after_files) files.push_back(file.string());
  json object = {{"partial", request.partial.string()},
                 {"manifest", to_text(request.manifest)},
                 {"after_files", std::move(files)},
                 {"good", request.good}};
  if (request.retention) {
    object["keep_latest"] = request.retention->keep_latest;
    object["keep_every"] = request.retention->keep_every;
  }
  return object.dump();
}

std::string commit_requested(const json& request) {
  const fs::path partial = request["partial"].get<std::string>();
  std::vector<fs::path> files;
  for (const json& file : request["after_files"]) files.emplace_back(file.get<std::string>());
  std::optional<Retention> retention;
  if (request.contains("keep_latest")) {
    retention = Retention{request["keep_latest"], request["keep_every"]};
  }
  return commit({partial, parse_manifest(request["manifest"].get<std::string>(), partial.string()),
                 std::move(files), request["good"], retention},
                nullptr);
}

}  // namespace

BackgroundWriter::BackgroundWriter(std::size_t most)
    : memory(most), process([](const std::string& text) {
        const json request = json::parse(text);
        return request.contains("pieces") ? write_requested_shard(request)
                                          : commit_requested(request);
      }) {}

Saver::Saver(Store& store, std::span<const Piece> pieces, BackgroundWriter* writer,
             std::optional<Retention> retention)
    : store_(store),
      writer_(writer),
      division_(divide(store.team(), pieces)),
      retention_(retention) {
  if (writer_) store_.team().together([&] { writer_->memory.reserve(division_.mine); });
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
  const fs::path path = save_->folder / shard_name(rank, division_.ranks.size());
  const hdf5::Origin origin{store_.run(), save_->snapshot.manifest.step};
  if (writer_) {
    writer_->process.start(shard_request(path, origin, writer_->memory.copy(division_.mine)));
  } else {
    result_ = json_text(write_shard(path, origin, division_.mine));
  }
}

std::string Saver::result() {
  return writer_ ? writer_->process.result() : std::exchange(result_, {});
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
    CommitRequest request{save_->folder, std::move(manifest), save_->snapshot.after_files,
                          store_.good(), retention_};
    if (writer_) {
      writer_->process.start(commit_request(request));
    } else {
      result_ = commit(std::move(request), &store_);
    }
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
