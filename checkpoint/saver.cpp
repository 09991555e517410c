#include "checkpoint/saver.h"

#include "checkpoint/child.h"
#include "checkpoint/commit.h"
#include "checkpoint/json_fields.h"
#include "checkpoint/shard_writer.h"
#include "model/base/error.h"
#include "model/base/file.h"
#include "model/base/outcome.h"

namespace trireme::checkpoint {
namespace {

using nlohmann::json;

std::string write_requested_shard(const json& request, const SnapshotMemory& memory) {
  const auto pieces = json_value<std::vector<Piece>>(request["pieces"], "a request's pieces");
  const std::vector<std::vector<std::uint32_t>> blocks = request["blocks"];
  return json_text(write_shard(request["path"].get<std::string>(),
                               {request["run"], request["step"]}, memory.placed(pieces), blocks));
}

std::string publish_requested(const json& request) {
  const std::filesystem::path partial = request["partial"].get<std::string>();
  Manifest manifest = parse_manifest(request["manifest"].get<std::string>(), partial.string());
  for (const json& file : request["after_files"]) {
    File::open_write(file.get<std::string>()).sync();
  }
  complete(partial, manifest);
  publish(partial, manifest.step);
  name_latest(partial.parent_path(), manifest.step);
  auto good = request["good"].get<std::set<std::int64_t>>();
  good.insert(manifest.step);
  json result{{"removed", json::array()}, {"not_removed", ""}};
  if (!request["keep_latest"].is_null()) {
    try {
      result["removed"] = prune(Store(request["run_dir"].get<std::string>()).list(), manifest.run,
                                {request["keep_latest"], request["keep_every"]}, good);
    } catch (const Error& error) {  // the checkpoint is already committed
      result["not_removed"] = error.what();
    }
  }
  result["good"] = good;
  return result.dump();
}

}  // namespace

BackgroundWriter::BackgroundWriter(std::size_t most)
    : memory(most), process([this](const std::string& text) {
        const json request = json::parse(text);
        return request.contains("pieces") ? write_requested_shard(request, memory)
                                          : publish_requested(request);
      }) {}

Saver::Saver(Store& store, BackgroundWriter& writer, std::vector<Piece> pieces,
             std::optional<Retention> retention)
    : store_(store),
      writer_(writer),
      division_(divide(store.team(), pieces)),
      retention_(retention) {
  store_.team().together([&] { writer_.memory.reserve(division_.mine); });
}

void Saver::begin(Snapshot snapshot) {
  require(!busy(), "the save of step ", snapshot_.step, " is in progress");
  commit_.emplace(store_.begin(snapshot.step, division_));
  snapshot_ = std::move(snapshot);
  publishing_ = false;
  try {
    store_.team().together([&] {
      const SnapshotMemory::Copied copied = writer_.memory.copy(division_.mine);
      const auto name =
          shard_name(static_cast<std::size_t>(store_.team().rank()), division_.ranks.size());
      writer_.process.start(json{
          {"path", (commit_->path / name).string()},
          {"run", store_.run()},
          {"step", commit_->step},
          {"pieces", as_json(copied.pieces)},
          {"blocks",
           copied.blocks}}.dump());
    });
  } catch (...) {
    if (writer_.process.busy()) outcome_of([&] { return writer_.process.result(); });
    commit_.reset();
    throw;
  }
}

bool Saver::waits() {
  if (!busy()) return false;
  if (publishing_ && !store_.team().leads()) return false;
  return !writer_.process.done();
}

std::optional<Saver::Saved> Saver::advance() {
  require(busy(), "no save is in progress");
  try {
    return advance_once();
  } catch (...) {
    commit_.reset();
    throw;
  }
}

std::optional<Saver::Saved> Saver::advance_once() {
  const Team& team = store_.team();
  if (!publishing_) {
    const std::vector<std::string> reports =
        team.together([&] { return writer_.process.result(); });
    const std::vector<WrittenShard> shards = Store::written(*commit_, reports);
    team.led([&] {
      store_.require_lease();  // fences a late writer
      writer_.process.start(publish_request(store_.assembled(snapshot_, division_, shards)));
    });
    publishing_ = true;
    return std::nullopt;
  }
  const json result = json::parse(team.led([&] { return writer_.process.result(); }));
  Saved saved{store_.end(*commit_, division_), result["removed"], result["not_removed"]};
  store_.set_good(result["good"]);
  commit_.reset();
  return saved;
}

Saver::Saved Saver::finish() {
  while (true) {
    if (auto saved = advance()) return *std::move(saved);
  }
}

std::string Saver::publish_request(const Manifest& manifest) const {
  json request{{"partial", commit_->path.string()},
               {"manifest", to_text(manifest)},
               {"after_files", json::array()},
               {"run_dir", store_.run_dir().string()},
               {"good", store_.good()},
               {"keep_latest", nullptr},
               {"keep_every", 0}};
  for (const auto& file : snapshot_.after_files) request["after_files"].push_back(file.string());
  if (retention_) {
    request["keep_latest"] = retention_->keep_latest;
    request["keep_every"] = retention_->keep_every;
  }
  return request.dump();
}

}  // namespace trireme::checkpoint
