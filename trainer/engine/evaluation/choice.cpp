#include "trainer/engine/evaluation/choice.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include "model/base/error.h"

namespace trireme {
namespace {

constexpr std::string_view kWhiteSpace = " \t\r\n";

bool is_space(char c) {
  return kWhiteSpace.find(c) != std::string_view::npos;
}

Choice choice_of(std::string_view context, const std::string& ending,
                 const std::vector<std::int32_t>& context_ids, const data::Tokenizer& tokenizer) {
  Choice choice;
  choice.ids = tokenizer.encode(std::string(context) + ending);
  const auto differ =
      std::mismatch(context_ids.begin(), context_ids.end(), choice.ids.begin(), choice.ids.end());
  choice.scored = static_cast<std::size_t>(differ.first - context_ids.begin());
  if (choice.scored == choice.ids.size()) throw DataError("an ending has no tokens");
  if (choice.scored > 0) return choice;
  const std::int32_t end = tokenizer.end_of_document();
  if (end < 0) {
    throw DataError(
        "an ending cannot be scored: the context has no tokens, and the tokenizer has no "
        "end-of-document token");
  }
  choice.ids.insert(choice.ids.begin(), end);
  choice.scored = 1;
  return choice;
}

void shorten(Choice& choice, std::size_t most) {
  if (choice.ids.size() <= most) return;
  const std::size_t drop = choice.ids.size() - most;
  if (drop >= choice.scored) {
    throw DataError(say("an ending of ", choice.ids.size() - choice.scored,
                        " tokens is longer than a sequence of ", most - 1));
  }
  choice.ids.erase(choice.ids.begin(), choice.ids.begin() + static_cast<std::ptrdiff_t>(drop));
  choice.scored -= drop;
}

// Each token predicts the next, so the last one is not an input.
std::int64_t inputs(const Choice& choice) {
  return static_cast<std::int64_t>(choice.ids.size()) - 1;
}

}  // namespace

std::vector<Choice> choices_of(const Question& question, const data::Tokenizer& tokenizer,
                               std::int64_t seq_len) {
  const std::string_view whole(question.context);
  const std::size_t last = whole.find_last_not_of(kWhiteSpace);
  const std::string_view context = whole.substr(0, last == std::string_view::npos ? 0 : last + 1);
  const std::string between(whole.substr(context.size()));
  const std::vector<std::int32_t> context_ids = tokenizer.encode(context);
  std::vector<Choice> choices;
  for (const std::string& ending : question.endings) {
    const bool joins = !between.empty() || context.empty() || is_space(ending.front());
    choices.push_back(
        choice_of(context, say(joins ? between : " ", ending), context_ids, tokenizer));
    shorten(choices.back(), static_cast<std::size_t>(seq_len) + 1);
  }
  return choices;
}

ChoiceRows::ChoiceRows(std::vector<Choice> choices, std::int64_t seq_len, bool documents)
    : choices_(std::move(choices)), seq_len_(seq_len), documents_(documents) {
  std::int64_t used = seq_len;
  for (const Choice& choice : choices_) {
    const std::int64_t count = inputs(choice);
    require(choice.scored > 0 && count > 0 && count <= seq_len, "a choice of ", count,
            " tokens in rows of ", seq_len);
    if (!documents || used + count > seq_len) {
      ++rows_;
      used = 0;
    }
    places_.push_back({rows_ - 1, used});
    used += count;
  }
}

std::pair<std::size_t, std::size_t> ChoiceRows::inside(std::int64_t first, std::int64_t end) const {
  const auto at = [&](std::int64_t row) {
    const auto found = std::lower_bound(
        places_.begin(), places_.end(), row,
        [](const Place& place, std::int64_t wanted) { return place.row < wanted; });
    return static_cast<std::size_t>(found - places_.begin());
  };
  return {at(first), at(end)};
}

void ChoiceRows::fill(const data::TokenBatch& batch, std::int64_t first) const {
  require(batch.seq_len == seq_len_, "rows of ", seq_len_, " tokens in ", batch.seq_len);
  std::fill(batch.ids.begin(), batch.ids.end(), 0);
  std::fill(batch.targets.begin(), batch.targets.end(), -1);
  std::fill(batch.document_start.begin(), batch.document_start.end(), 0);
  for (std::int64_t row = 0; row < batch.sequences; ++row) {
    const auto positions = batch.part(row, 1).positions;
    std::iota(positions.begin(), positions.end(), 0);
  }
  const auto [begin, end] = inside(first, first + batch.sequences);
  for (std::size_t i = begin; i < end; ++i) {
    const Choice& choice = choices_[i];
    const std::int64_t count = inputs(choice), at = places_[i].at;
    const data::TokenBatch row = batch.part(places_[i].row - first, 1);
    std::copy(choice.ids.begin(), choice.ids.end() - 1, row.ids.begin() + at);
    std::copy(choice.ids.begin() + choice.scored, choice.ids.end(),
              row.targets.begin() + at + choice.scored - 1);
    if (!documents_) continue;
    // The padding after the last choice of a row is a document of its own.
    std::iota(row.positions.begin() + at, row.positions.end(), 0);
    std::fill(row.document_start.begin() + at, row.document_start.begin() + at + count,
              static_cast<std::int32_t>(at));
    const std::int64_t after = at + count;
    std::iota(row.positions.begin() + after, row.positions.end(), 0);
    std::fill(row.document_start.begin() + after, row.document_start.end(),
              static_cast<std::int32_t>(after));
  }
}

void ChoiceRows::add(std::span<const double> losses, std::int64_t first,
                     std::span<double> log_likelihoods) const {
  const std::int64_t sequences = static_cast<std::int64_t>(losses.size()) / seq_len_;
  require(log_likelihoods.size() == choices_.size(), log_likelihoods.size(), " places for ",
          choices_.size(), " choices");
  const auto [begin, end] = inside(first, first + sequences);
  for (std::size_t i = begin; i < end; ++i) {
    const auto row = losses.begin() + (places_[i].row - first) * seq_len_ + places_[i].at;
    log_likelihoods[i] -=
        std::accumulate(row + choices_[i].scored - 1, row + inputs(choices_[i]), 0.0);
  }
}

}  // namespace trireme
