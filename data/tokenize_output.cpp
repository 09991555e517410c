#include "data/tokenize_output.h"

#include <unistd.h>
#include <xxhash.h>

#include <optional>
#include <utility>

#include "data/indexed_dataset.h"
#include "data/sidecar.h"
#include "model/base/error.h"
#include "model/base/file.h"
#include "model/base/json.h"
#include "model/base/philox.h"

namespace trireme::data {

TRIREME_JSON(ReaderPosition, file, offset, line, continues)

namespace {

using nlohmann::json;

constexpr const char* kProgressFormat = "trireme-tokenize-1";
constexpr std::uint64_t kLongestNote = 1u << 20;
constexpr std::uint64_t kSplitSeed = 0x73706C6974;  // "split"

struct SavedPart : SavedTokens {
  std::string suffix;
  std::uint64_t text_bytes = 0;
};
void json_fields(auto& f, SavedPart& part) {
  f("suffix", part.suffix);
  f("tokens", part.tokens);
  f("open_tokens", part.open_tokens);
  f("documents", part.documents);
  f("highest_id", part.highest_id, {.least = -1});
  f("index_bytes", part.index_bytes);
  f("text_bytes", part.text_bytes);
}

// The record of the progress.
struct Note {
  std::string job;
  ReaderPosition position;
  std::uint64_t input_bytes = 0;
  std::vector<SavedPart> parts;
};
TRIREME_JSON(Note, job, position, input_bytes, parts)

std::string hash_of_job(const Tokenizer& tokenizer, const std::vector<InputFile>& inputs,
                        const TokenizeSpec& spec) {
  json job{kProgressFormat, tokenizer.name(),   tokenizer.hash(),
           spec.json_key,   spec.end_documents, spec.validation_share};
  for (const InputFile& input : inputs) {
    const auto changed = std::filesystem::last_write_time(input.path).time_since_epoch().count();
    job.push_back({input.path.string(), input.bytes, changed, input.json_lines});
  }
  const std::string text = json_text(job);
  return hex(XXH3_64bits(text.data(), text.size()));
}

}  // namespace

TokenizeOutput::TokenizeOutput(const Tokenizer& tokenizer, const std::vector<InputFile>& inputs,
                               const TokenizeSpec& spec)
    : tokenizer_(tokenizer),
      spec_(spec),
      note_(spec.output.string() + ".partial.json"),
      job_(hash_of_job(tokenizer, inputs, spec)) {
  if (!resume()) start();
}

TokenizeOutput::~TokenizeOutput() {
  if (!finished_) ::unlink(note_.c_str());
}

void TokenizeOutput::add_part(const std::string& suffix, const SavedTokens& from,
                              std::uint64_t text_bytes) {
  const std::filesystem::path prefix = spec_.output.string() + suffix;
  auto writer =
      std::make_unique<IndexedDatasetWriter>(prefix, smallest_type(tokenizer_.vocab_size()), from);
  parts_.push_back({prefix, std::move(writer), text_bytes});
}

void TokenizeOutput::start() {
  parts_.clear();
  begin_ = {};
  count_ = {};
  add_part("", {}, 0);
  if (spec_.validation_share > 0) add_part("-validation", {}, 0);
  ::unlink(note_.c_str());
}

// Whether an earlier run of the same job can be resumed.
bool TokenizeOutput::resume() {
  std::error_code why;
  if (!std::filesystem::exists(note_, why)) return false;
  try {
    const auto note = valid_json<Note>(read_text(note_, kLongestNote));
    if (!note || note->job != job_) return false;
    begin_ = note->position;
    count_.input_bytes = note->input_bytes;
    for (const SavedPart& part : note->parts) {
      add_part(part.suffix, part, part.text_bytes);
      count_.documents += part.documents;
      count_.tokens += part.tokens;
      count_.text_bytes += part.text_bytes;
    }
  } catch (const EnvironmentError&) {
    return false;  // files of the record are missing, or in use: reported by start()
  }
  count_.resumed_documents = count_.documents;
  count_.resumed_tokens = count_.tokens;
  count_.resumed_bytes = saved_at_ = count_.input_bytes;
  return true;
}

TokenizeOutput::Part& TokenizeOutput::part_of(std::int64_t document) {
  if (parts_.size() == 1) return parts_.front();
  const double place = philox(kSplitSeed, static_cast<std::uint64_t>(document))[0] / 4294967296.0;
  return place < spec_.validation_share ? parts_.back() : parts_.front();
}

void TokenizeOutput::append(std::span<const std::int32_t> ids, std::uint64_t text_bytes,
                            bool ends_document) {
  Part& part = part_of(count_.documents);
  part.writer->append(ids);
  part.text_bytes += text_bytes;
  count_.tokens += static_cast<std::int64_t>(ids.size());
  count_.text_bytes += text_bytes;
  if (!ends_document) return;
  part.writer->end_document();
  ++count_.documents;
}

void TokenizeOutput::reached(const ReaderPosition& after, std::uint64_t bytes_read) {
  count_.input_bytes += bytes_read;
  if (count_.input_bytes - saved_at_ < spec_.save_bytes) return;
  saved_at_ = count_.input_bytes;
  save(after);
}

void TokenizeOutput::save(const ReaderPosition& after) {
  Note note{job_, after, count_.input_bytes, {}};
  for (Part& part : parts_) {
    const auto saved = part.writer->save();
    if (!saved) return;
    const char* suffix = &part == &parts_.front() ? "" : "-validation";
    note.parts.push_back({*saved, suffix, part.text_bytes});
  }
  replace_text(note_, json_text(note, 2) + "\n");
}

void TokenizeOutput::finish() {
  for (const Part& part : parts_) {
    if (part.writer->documents() > 0) continue;
    throw DataError(say("--split ", spec_.validation_share, " of ", count_.documents,
                        " documents, --split leaves none for ", part.prefix.string()));
  }
  for (Part& part : parts_) {
    part.writer->finish();
    const Sidecar sidecar{
        .tokenizer = tokenizer_.name(),
        .tokenizer_path = tokenizer_.path(),
        .tokenizer_hash = tokenizer_.hash(),
        .vocab_size = tokenizer_.vocab_size(),
        .end_of_document = spec_.end_documents ? tokenizer_.end_of_document() : -1,
        .documents = part.writer->documents(),
        .tokens = part.writer->tokens(),
        .text_bytes = static_cast<std::int64_t>(part.text_bytes),
        .highest_id = part.writer->highest_id(),
    };
    write_sidecar(part.prefix, sidecar, IndexedDataset(part.prefix));
  }
  ::unlink(note_.c_str());
  finished_ = true;
}

}  // namespace trireme::data
