#include "trainer/engine/evaluation/choice.h"

#include <algorithm>
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

}  // namespace trireme
