#include "tests/trainer/tools/audit/made_up_run.h"

#include <xxhash.h>

#include <bit>
#include <fstream>

#include "checkpoint/format/manifest.h"
#include "checkpoint/format/names.h"
#include "data/indexed_dataset_writer.h"
#include "data/token_batch.h"
#include "model/base/file.h"
#include "model/base/hex.h"
#include "trainer/config/batch_size.h"
#include "trainer/config/value_text.h"
#include "trainer/tools/audit/recount.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::int64_t kSeqLen = 8;

std::uint64_t mixed(const std::vector<std::uint64_t>& all) {
  return XXH3_64bits(all.data(), all.size() * sizeof(std::uint64_t));
}

double number_of(std::uint64_t bits) {
  return static_cast<double>(bits >> 11) / 9007199254740992.0;  // 2^53: every digit counts
}

std::uint64_t hash_of(const data::SampleSource& source, std::uint64_t sample) {
  const data::SequenceBuffer row(kSeqLen);
  source.fill(sample, row.batch());
  return data::sample_hash(sample, row.batch().ids, row.batch().targets);
}

void write_file(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

json ranges(const data::LeftOut& left_out) {
  json list = json::array();
  for (const auto& range : left_out.ranges()) list.push_back({range.first, range.end});
  return list;
}

}  // namespace

data::SampleSource MadeUpRun::source(const fs::path& folder, bool stages) {
  std::mt19937 random(1);
  for (const char* name : {"first", "second", "third"}) {
    data::IndexedDatasetWriter writer(folder / name, data::TokenType::kU16);
    for (int document = 0; document < 30; ++document) {
      std::vector<std::int32_t> ids(10 + random() % 9);
      for (auto& id : ids) id = static_cast<std::int32_t>(random() % 500);
      writer.append(ids);
      writer.end_document();
    }
    writer.finish();
  }
  const data::SourceSpec first{.prefix = folder / "first"};
  const data::SourceSpec second{.prefix = folder / "second", .weight = 0.6};
  const data::SourceSpec third{.prefix = folder / "third", .weight = 0.3};
  std::vector<data::MixtureChange> changes;
  if (stages) changes = {{9 * kBatch, {second, third}}, {17 * kBatch, {third, first, second}}};
  return {{first, second}, {.seq_len = kSeqLen, .document_mask = true, .seed = 3}, changes};
}

MadeUpRun::MadeUpRun(fs::path folder, const data::SampleSource& source, std::uint64_t seed)
    : folder_(std::move(folder)), source_(source), random_(seed), reproducible_(seed % 2 == 0) {
  fs::create_directories(folder_);
  training_.global_batch_size = kBatch;
  if (seed % 5 == 4) training_.rampup_batch_size = {{1, 1}, {6, 2}, {14, kBatch}};
  if (seed % 3 == 0) config_skip_ = {{2, 3}, {21, 26}, {60, 64}};
  state_.left_out = data::LeftOut(config_skip_);
  saved_[0] = state_;
}

bool MadeUpRun::chance(double probability) {
  return std::uniform_real_distribution<>()(random_) < probability;
}

std::string MadeUpRun::weights() const {
  return hex(state_.bits);
}

void MadeUpRun::run(std::int64_t steps, const Chances& chances) {
  start_or_resume();
  while (state_.step < steps) {
    if (chance(chances.kill)) kill();
    if (chance(chances.skip)) skip();
    if (chance(chances.rollback)) roll_back();
    take_step();
    if (state_.step % kInterval == 0) save();
  }
}

void MadeUpRun::open(const char* why) {
  const LedgerBegin begin{
      .why = why,
      .incarnation = incarnation_,
      .after = state_.step,
      .weights = weights(),
      .skip = config_skip_,
      .data = source_.fingerprint(),
      .computation = {{"job.reproducible", reproducible_ ? "true" : "false"},
                      {"parallelism.data_shard", std::to_string(ranks_)},
                      {"training.global_batch_size", std::to_string(kBatch)},
                      {"training.rampup_batch_size", to_toml(Slot(&training_.rampup_batch_size))},
                      {"training.seq_len", std::to_string(kSeqLen)}}};
  events_.emplace(folder_ / "events.jsonl");
  ledger_.emplace(folder_ / "ledger.jsonl", begin);
  metrics_.emplace(folder_ / "metrics.jsonl", state_.step);
}

void MadeUpRun::start_or_resume() {
  incarnation_ += 1 + static_cast<std::int64_t>(random_() % 2);  // one may come to nothing
  ranks_ = std::int64_t{1} << random_() % 3;
  const char* why = state_.step == 0 ? "start" : "resume";
  open(why);
  events_->record(why, state_.step, {{"incarnation", incarnation_}});
}

std::int64_t MadeUpRun::sequences() const {
  return sequences_of_step(training_, state_.step + 1);
}

void MadeUpRun::take_step() {
  const std::int64_t sequences = this->sequences();
  const data::SampleRange samples = next();
  const std::uint64_t end =
      state_.samples == 0 ? 0 : state_.left_out.sample(state_.samples - 1) + 1;
  std::uint64_t hash = 0;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(sequences); ++i) {
    hash += hash_of(source_, state_.left_out.sample(state_.samples + i));
  }
  const double lr = 1.0 / static_cast<double>(7 + state_.step);
  // Without job.reproducible the last bits depend on the layout.
  const std::uint64_t layout = reproducible_ ? 0 : static_cast<std::uint64_t>(ranks_);
  const std::uint64_t gradients = mixed({state_.bits, hash, layout});
  ++state_.step;
  state_.samples += static_cast<std::uint64_t>(sequences);
  state_.tokens += sequences * kSeqLen;
  state_.bits = mixed({gradients, std::bit_cast<std::uint64_t>(lr)});
  state_.loss = number_of(gradients);
  state_.grad_norm = number_of(mixed({gradients}));
  ledger_->append({.step = state_.step,
                   .incarnation = incarnation_,
                   .samples = samples,
                   .left_out = state_.left_out.inside({end, samples.end}).ranges(),
                   .sequences = sequences,
                   .tokens = sequences * kSeqLen,
                   .hash = hash,
                   .loss = state_.loss,
                   .grad_norm = state_.grad_norm,
                   .lr = lr,
                   .attempts = 1,
                   .products_chosen = false});
  StepMetrics metrics;
  metrics.step = state_.step;
  metrics.tokens = state_.tokens;
  metrics.loss = state_.loss;
  metrics.grad_norm = state_.grad_norm;
  metrics.lr = lr;
  metrics_->append(metrics);
}

void MadeUpRun::skip() {
  const data::SampleRange samples = next();
  state_.left_out.add(samples);
  events_->record("skip", state_.step + 1, {{"samples", {samples.first, samples.end}}});
}

void MadeUpRun::roll_back() {
  const data::SampleRange bad = next();
  state_ = saved_.rbegin()->second;
  const data::SampleRange left_out{state_.position(), bad.end};
  const std::int64_t step = state_.step;
  state_.left_out.add(left_out);
  open("rollback");
  events_->record("rollback", step + 1,
                  {{"to_step", step}, {"left_out", {left_out.first, left_out.end}}});
}

// The next incarnation goes on from the newest save, or now and then from an older one.
void MadeUpRun::kill() {
  if (chance(0.3)) {  // between the two lines of a step
    const std::string metrics = read_text(folder_ / "metrics.jsonl");
    take_step();
    metrics_.reset();
    write_file(folder_ / "metrics.jsonl", metrics);
  }
  ledger_.reset();
  if (chance(0.3)) {
    write_file(folder_ / "ledger.jsonl", read_text(folder_ / "ledger.jsonl") + "{\"step\":");
  }
  if (saved_.size() > 1 && chance(0.2)) saved_.erase(std::prev(saved_.end()));
  state_ = saved_.rbegin()->second;
  start_or_resume();
}

void MadeUpRun::save() {
  saved_.erase(saved_.upper_bound(state_.step), saved_.end());
  saved_[state_.step] = state_;
  checkpoint::Manifest manifest;
  manifest.run = "01234567-89ab-4cde-8f01-23456789abcd";
  manifest.step = state_.step;
  manifest.shards = {{"shard-00000-of-00001.h5", 1, 0}};
  manifest.view = {checkpoint::Manifest::kViewName, 1, 0};
  manifest.data = {{"samples", state_.position()},
                   {"tokens", state_.tokens},
                   {"left_out", ranges(state_.left_out.before(state_.position()))}};
  manifest.digests = {{"loss", hex(state_.loss)}, {"grad_norm", hex(state_.grad_norm)}};
  manifest.scalars = manifest.layout = manifest.versions = json::object();
  manifest.state_crc = checkpoint::state_crc_of({});
  const fs::path path = folder_ / "checkpoints" / checkpoint::step_name(state_.step);
  fs::create_directories(path);
  write_file(path / checkpoint::Manifest::kFileName, checkpoint::to_text(manifest));
}

Findings audit_with_data(const fs::path& run, const data::SampleSource& source) {
  Audit audit = audit_run(run, /*data=*/false);
  recount(audit.records, audit.lineage, source, audit.findings);
  return audit.findings;
}

}  // namespace trireme
