#include "data/tokenize.h"

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "data/text_reader.h"
#include "data/tokenize_output.h"
#include "model/base/error.h"

namespace trireme::data {
namespace {

// Result of a worker for one batch: ids, and the positions of document ends.
struct Encoded {
  struct End {
    std::size_t ids;
    std::uint64_t text_bytes;
  };
  std::vector<std::int32_t> ids;
  std::vector<End> document_ends;
  std::uint64_t text_bytes = 0;
};

// Every worker takes the next batch, encodes it, and waits for its turn to write. Reading and
// writing are done by the workers themselves, so there are as many batches in flight as workers.
class Pipeline {
 public:
  Pipeline(const Tokenizer& tokenizer, const std::vector<InputFile>& inputs,
           const TokenizeSpec& spec, const std::function<void(const TokenizeCount&)>& progress)
      : tokenizer_(tokenizer),
        inputs_(inputs),
        spec_(spec),
        progress_(progress),
        output_(tokenizer, inputs, spec),
        reader_(
            inputs, [&](std::string_view text) { return tokenizer.last_cut(text); },
            output_.begin()) {
    progress_(output_.count());
  }

  void work() {
    const std::unique_ptr<Encoder> encoder = tokenizer_.encoder();
    TextBatch batch;
    Encoded encoded;
    for (std::uint64_t number = 0; take(batch, number);) {
      std::exception_ptr failure;
      try {
        encode(*encoder, batch, encoded);
      } catch (...) {
        failure = std::current_exception();
      }
      write(number, batch, encoded, failure);
    }
  }

  TokenizeCount finish() {
    if (failure_) std::rethrow_exception(failure_);
    if (output_.count().documents == 0) {
      throw DataError(say(inputs_.front().path.string(),
                          inputs_.size() > 1 ? " and the others" : "",
                          ": no documents to tokenize"));
    }
    output_.finish();
    return output_.count();
  }

 private:
  bool take(TextBatch& batch, std::uint64_t& number) {
    const std::lock_guard lock(reading_);
    if (ended_ || stopped_) return false;
    try {
      ended_ = !reader_.next(batch);
      number = taken_;
      if (!ended_) ++taken_;
      return !ended_;
    } catch (...) {
      // Reported in order like every other failure, so that the first one in the input is shown.
      ended_ = true;
      batch = {};
      write(taken_++, batch, {}, std::current_exception());
      return false;
    }
  }

  void encode(Encoder& encoder, const TextBatch& batch, Encoded& into) const {
    into.ids.clear();
    into.document_ends.clear();
    into.text_bytes = 0;
    for (const TextPiece& piece : batch.pieces) {
      const std::string_view raw =
          std::string_view(batch.text).substr(piece.begin, piece.end - piece.begin);
      if (piece.line > 0) {
        const std::string place = say(inputs_[piece.file].path.string(), ":", piece.line);
        const std::string text = text_of_json(raw, spec_.json_key, place);
        encoder.encode(text, false, into.ids);
        into.text_bytes += text.size();
      } else {
        encoder.encode(raw, piece.continues, into.ids);
        into.text_bytes += raw.size();
      }
      if (!piece.ends_document) continue;
      if (spec_.end_documents) into.ids.push_back(tokenizer_.end_of_document());
      into.document_ends.push_back({into.ids.size(), into.text_bytes});
    }
  }

  void write(std::uint64_t number, const TextBatch& batch, const Encoded& encoded,
             const std::exception_ptr& failure) {
    std::unique_lock lock(writing_);
    turn_.wait(lock, [&] { return written_ == number; });
    try {
      if (failure) std::rethrow_exception(failure);
      if (!failure_) append(batch, encoded);
    } catch (...) {
      if (!failure_) failure_ = std::current_exception();
      stopped_ = true;
    }
    ++written_;
    turn_.notify_all();
  }

  void append(const TextBatch& batch, const Encoded& encoded) {
    const std::span<const std::int32_t> ids = encoded.ids;
    Encoded::End begin{0, 0};
    for (const Encoded::End& end : encoded.document_ends) {
      output_.append(ids.subspan(begin.ids, end.ids - begin.ids), end.text_bytes - begin.text_bytes,
                     true);
      begin = end;
    }
    output_.append(ids.subspan(begin.ids), encoded.text_bytes - begin.text_bytes, false);
    output_.reached(batch.after, batch.bytes_read);
    progress_(output_.count());
  }

  const Tokenizer& tokenizer_;
  const std::vector<InputFile>& inputs_;
  const TokenizeSpec& spec_;
  const std::function<void(const TokenizeCount&)>& progress_;

  TokenizeOutput output_;  // guarded by writing_, except begin()

  std::mutex reading_;
  TextReader reader_;
  std::uint64_t taken_ = 0;
  bool ended_ = false;

  std::mutex writing_;
  std::condition_variable turn_;
  std::uint64_t written_ = 0;
  std::exception_ptr failure_;
  std::atomic<bool> stopped_ = false;  // stop reading after a failure
};

}  // namespace

std::string text_of_json(std::string_view line, const std::string& key, const std::string& place) {
  try {
    auto object = nlohmann::json::parse(line);
    if (!object.is_object()) {
      throw DataError(say(place, ": is not a JSON object but ", object.type_name(),
                          "; every line must be an object like {\"", key, "\": \"...\"}"));
    }
    const auto found = object.find(key);
    if (found == object.end()) {
      throw DataError(say(place, ": the object has no key \"", key,
                          "\"; name the key of the text with --jsonl-key"));
    }
    if (!found->is_string()) {
      throw DataError(say(place, ": the value of \"", key, "\" is not a string but ",
                          found->type_name(), "; give the key of the text with --jsonl-key"));
    }
    return std::move(found->get_ref<std::string&>());
  } catch (const nlohmann::json::out_of_range&) {
    throw DataError(
        say(place, ": has a number outside the range of double; correct or delete the line"));
  } catch (const nlohmann::json::parse_error& error) {
    throw DataError(say(place, ": is not valid JSON (column ", error.byte,
                        "); every line must be one object in UTF-8; correct or delete the line"));
  }
}

TokenizeCount tokenize(const Tokenizer& tokenizer, const std::vector<InputFile>& inputs,
                       const TokenizeSpec& spec,
                       const std::function<void(const TokenizeCount&)>& progress) {
  require(!inputs.empty() && spec.threads > 0, inputs.size(), " inputs, ", spec.threads,
          " threads");
  if (spec.end_documents && tokenizer.end_of_document() < 0) {
    throw DataError(
        say("tokenizer ", tokenizer.path(),
            ": has no end-of-document piece (eos); pass --no-append-eod, train a "
            "model that has one, or name an added token of a tokenizer.json as eos_token "
            "in tokenizer_config.json in its folder"));
  }
  Pipeline pipeline(tokenizer, inputs, spec, progress);
  {
    std::vector<std::thread> workers;
    for (int i = 1; i < spec.threads; ++i) workers.emplace_back([&] { pipeline.work(); });
    pipeline.work();
    for (std::thread& worker : workers) worker.join();
  }
  return pipeline.finish();
}

}  // namespace trireme::data
