#include "data/source_part.h"

#include <cmath>
#include <utility>

#include "data/open_tokens.h"
#include "model/base/error.h"

namespace trireme::data {

SourcePart::SourcePart(SourceSpec spec, const Needs& needs)
    : spec_(std::move(spec)), stream_(open_tokens(spec_.prefix)) {
  choose_documents(needs);
  sidecar_ = read_sidecar(spec_.prefix, *stream_);
  if (needs.vocab_size > 0) check_vocabulary(needs.vocab_size);
}

void SourcePart::choose_documents(const Needs& needs) {
  if (!(spec_.first >= 0 && spec_.first < spec_.last && spec_.last <= 1)) {
    throw ConfigError(say("data: ", stream_->name(), ": the fraction of documents from ",
                          spec_.first, " to ", spec_.last, " is not within 0 to 1"));
  }
  const std::int64_t all = needs.by_sequence ? stream_->sequences() : stream_->documents();
  const auto place = [&](double share) {
    return static_cast<std::int64_t>(std::nearbyint(share * static_cast<double>(all)));
  };
  first_ = place(spec_.first);
  last_ = place(spec_.last);
  const auto begin_of = [&](std::int64_t at) {
    return needs.by_sequence ? stream_->sequence_begin(at) : stream_->document_begin(at);
  };
  begin_ = begin_of(first_);
  tokens_ = begin_of(last_) - begin_;
  if (tokens_ > needs.seq_len) return;
  throw DataError(say(stream_->token_file(), ": its documents [", first_, ", ", last_, ") of ", all,
                      " have ", tokens_,
                      " tokens, and one sequence of training.seq_len = ", needs.seq_len, " needs ",
                      needs.seq_len + 1, ": add text, lower seq_len or widen data.split"));
}

void SourcePart::check_vocabulary(std::int64_t vocab_size) const {
  if (sidecar_ && sidecar_->highest_id < vocab_size) return;
  stream_->check_ids(vocab_size, begin_, begin_ + tokens_);
}

}  // namespace trireme::data
