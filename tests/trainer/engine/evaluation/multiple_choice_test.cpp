#include "trainer/engine/evaluation/multiple_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "data/byte_tokenizer.h"
#include "model/base/error.h"
#include "model/base/file.h"
#include "tests/trainer/telemetry/scratch_folder.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string complaint(const std::string& line) {
  try {
    parse_question(line);
  } catch (const DataError& error) {
    return error.what();
  }
  return {};
}

TEST(multiple_choice, a_line_of_hellaswag_is_a_question) {
  const Question question = parse_question(
      R"({"ind": 24, "activity_label": "Roof", "ctx_a": "A man", "ctx_b": "", "ctx": "A man is",)"
      R"( "split": "val", "split_type": "indomain", "label": 1, "endings": ["up.", "dön."],)"
      R"( "source_id": "x"})");
  EXPECT_EQ(question.context, "A man is");
  EXPECT_THAT(question.endings, ElementsAre("up.", "dön."));
  EXPECT_EQ(question.label, 1u);
  const Question other =
      parse_question(R"({"context": "", "endings": ["a", "b", "c"], "label": "2"})");
  EXPECT_EQ(other.context, "");
  EXPECT_EQ(other.label, 2u);
}

TEST(multiple_choice, what_is_wrong_with_a_line_is_named) {
  EXPECT_THAT(complaint(R"({"ctx": "a")"), HasSubstr("is not valid JSON"));
  EXPECT_THAT(complaint("[1]"), HasSubstr("must be an object, not array"));
  EXPECT_THAT(complaint(R"({"question": "a", "endings": ["b", "c"], "label": 0})"),
              HasSubstr("the key \"question\" is unknown"));
  EXPECT_THAT(complaint(R"({"ctx": "a", "context": "a", "endings": ["b", "c"], "label": 0})"),
              HasSubstr("both"));
  EXPECT_THAT(complaint(R"({"endings": ["b", "c"], "label": 0})"), HasSubstr("has no ctx"));
  EXPECT_THAT(complaint(R"({"ctx": 3, "endings": ["b", "c"], "label": 0})"),
              HasSubstr("ctx must be a string, not number"));
  EXPECT_THAT(complaint(R"({"ctx": "a", "endings": "bc", "label": 0})"), HasSubstr("a list"));
  EXPECT_THAT(complaint(R"({"ctx": "a", "endings": ["b"], "label": 0})"),
              HasSubstr("at least two"));
  EXPECT_THAT(complaint(R"({"ctx": "a", "endings": ["b", ""], "label": 0})"),
              HasSubstr("endings[1] is empty"));
  for (const char* label :
       {"2", "-1", "0.5", "\"\"", "\"x\"", "null", "\"99999999999999999999\""}) {
    EXPECT_THAT(complaint(say(R"({"ctx": "a", "endings": ["b", "c"], "label": )", label, "}")),
                HasSubstr("0 to 1"))
        << label;
  }
}

TEST(multiple_choice, a_bad_line_is_found_by_file_and_number) {
  const ScratchFolder folder;
  const auto path = folder / "quiz.jsonl";
  const std::string good = R"({"ctx": "a", "endings": ["b", "c"], "label": 0})";
  const auto why = [&](const std::string& text) -> std::string {
    replace_text(path, text);
    try {
      read_questions(path);
    } catch (const DataError& error) {
      return error.what();
    }
    return {};
  };
  EXPECT_EQ(why(good + "\r\n\n" + good), "");
  EXPECT_EQ(read_questions(path).size(), 2u);
  EXPECT_THAT(why(good + "\n\n{}\n"), HasSubstr("quiz.jsonl:3: has no ctx"));
  EXPECT_THAT(why("\n"), HasSubstr("has no question"));
  EXPECT_THROW(read_questions(folder / "absent.jsonl"), DataError);
}

std::string text_of(const Choice& choice) {
  return std::string(choice.ids.begin(), choice.ids.end());
}

TEST(multiple_choice, the_ending_is_scored_from_where_the_context_alone_ends) {
  const data::ByteTokenizer bytes;
  const auto choices = choices_of({"ab  ", {"c", " de"}, 0}, bytes, 20);
  ASSERT_EQ(choices.size(), 2u);
  EXPECT_EQ(text_of(choices[0]), "ab  c");
  EXPECT_EQ(choices[0].scored, 2u);
  EXPECT_EQ(text_of(choices[1]), "ab   de");
  const auto joined = choices_of({"ab", {"c", "\tde"}, 0}, bytes, 20);
  EXPECT_EQ(text_of(joined[0]), "ab c");
  EXPECT_EQ(joined[0].scored, 2u);
  EXPECT_EQ(text_of(joined[1]), "ab\tde");
  const auto alone = choices_of({"", {"xy", "z"}, 0}, bytes, 20);
  EXPECT_THAT(alone[0].ids, ElementsAre(256, 'x', 'y'));
  EXPECT_EQ(alone[0].scored, 1u);
}

TEST(multiple_choice, a_long_context_loses_its_beginning_but_never_all) {
  const data::ByteTokenizer bytes;
  const auto cut = choices_of({"abcdef", {"gh", "i"}, 0}, bytes, 5);
  EXPECT_EQ(text_of(cut[0]), "def gh");
  EXPECT_EQ(cut[0].scored, 3u);
  EXPECT_EQ(text_of(cut[1]), "cdef i");
  EXPECT_EQ(choices_of({"a", {"bcde", "f"}, 0}, bytes, 5)[0].scored, 1u);
  EXPECT_THROW(choices_of({"a", {"bcdef", "g"}, 0}, bytes, 5), DataError);
}

// A batch in memory of its own.
struct Batch {
  Batch(std::int64_t sequences, std::int64_t seq_len)
      : memory(data::TokenBatch::kArrays * sequences * seq_len, 99),
        view(data::TokenBatch::in(memory, sequences, seq_len)) {}
  std::vector<std::int32_t> memory;
  data::TokenBatch view;
};

const std::vector<Choice> kChoices{
    {{10, 11, 12, 13}, 2}, {{20, 21, 22}, 1}, {{30, 31, 32, 33, 34}, 4}, {{40, 41}, 1}};

TEST(multiple_choice, choices_shard_rows_as_documents) {
  const ChoiceRows rows(kChoices, 6, true);
  EXPECT_EQ(rows.rows(), 2);
  Batch batch(3, 6);
  rows.fill(batch.view, 0);
  EXPECT_THAT(batch.view.ids,
              ElementsAre(10, 11, 12, 20, 21, 0, 30, 31, 32, 33, 40, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(batch.view.targets,
              ElementsAre(-1, 12, 13, 21, 22, -1, -1, -1, -1, 34, 41, -1, -1, -1, -1, -1, -1, -1));
  EXPECT_THAT(batch.view.positions,
              ElementsAre(0, 1, 2, 0, 1, 0, 0, 1, 2, 3, 0, 0, 0, 1, 2, 3, 4, 5));
  EXPECT_THAT(batch.view.document_start,
              ElementsAre(0, 0, 0, 3, 3, 5, 0, 0, 0, 0, 4, 5, 0, 0, 0, 0, 0, 0));
}

TEST(multiple_choice, without_documents_each_choice_has_a_row) {
  const ChoiceRows rows(kChoices, 6, false);
  EXPECT_EQ(rows.rows(), 4);
  Batch batch(2, 6);
  rows.fill(batch.view, 1);
  EXPECT_THAT(batch.view.ids, ElementsAre(20, 21, 0, 0, 0, 0, 30, 31, 32, 33, 0, 0));
  EXPECT_THAT(batch.view.targets, ElementsAre(21, 22, -1, -1, -1, -1, -1, -1, -1, 34, -1, -1));
  EXPECT_THAT(batch.view.positions, ElementsAre(0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5));
  EXPECT_THAT(batch.view.document_start, testing::Each(0));
}

// A model whose token t follows token s with a loss of (t mod 10) + s / 128, which is exact: its
// log-likelihoods are known by hand.
TEST(multiple_choice, log_likelihoods_are_sums_over_the_endings_tokens_alone) {
  const std::vector<double> by_hand{-(2 + 11 / 128.0) - (3 + 12 / 128.0),
                                    -(1 + 20 / 128.0) - (2 + 21 / 128.0), -(4 + 33 / 128.0),
                                    -(1 + 40 / 128.0)};
  for (const bool documents : {true, false}) {
    for (const std::int64_t sequences : {1, 2, 3}) {
      const ChoiceRows rows(kChoices, 6, documents);
      Batch batch(sequences, 6);
      std::vector<double> found(kChoices.size());
      for (std::int64_t first = 0; first < rows.rows(); first += sequences) {
        rows.fill(batch.view, first);
        std::vector<double> losses;
        for (std::size_t i = 0; i < batch.view.ids.size(); ++i) {
          const std::int32_t target = batch.view.targets[i];
          losses.push_back(target < 0 ? 0 : target % 10 + batch.view.ids[i] / 128.0);
        }
        rows.add(losses, first, found);
      }
      EXPECT_EQ(found, by_hand) << documents << " " << sequences;
    }
  }
}

TEST(multiple_choice, the_score_is_of_the_whole_ending_and_of_its_bytes) {
  // The second ending is the likeliest of all, the third of those a byte ("ö" has two).
  const std::vector<Question> questions{{"", {"ab", "a", "abcö"}, 1}, {"", {"x", "yyyy"}, 0}};
  const std::vector<double> found{-4, -2.5, -5, -1, -3};
  const ChoiceScore both = score(questions, found);
  EXPECT_EQ(both.questions, 2);
  EXPECT_EQ(both.plain.accuracy, 1);
  EXPECT_EQ(both.plain.standard_error, 0);
  EXPECT_EQ(both.normalized.accuracy, 0);

  const std::vector<Question> four(4, Question{"", {"a", "b"}, 0});
  const ChoiceScore some = score(four, std::vector<double>{-1, -2, -2, -1, -1, -1, -3, -1});
  EXPECT_EQ(some.plain.accuracy, 0.5);  // of equals the first
  EXPECT_DOUBLE_EQ(some.plain.standard_error, std::sqrt(0.25 / 3));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(score({four[0]}, std::vector<double>{-1, nan}).plain.accuracy, 0);
  EXPECT_THROW(score(four, found), Error);
}

TEST(multiple_choice, a_file_is_called_after_its_name_and_its_bad_question_by_number) {
  const ScratchFolder folder;
  const auto path = folder / "quiz.jsonl";
  replace_text(path, R"({"ctx": "a", "endings": ["b", "c"], "label": 0})"
                     "\n"
                     R"({"ctx": "a", "endings": ["bcdefgh", "c"], "label": 0})");
  const data::ByteTokenizer bytes;
  const MultipleChoice test = open_multiple_choice(path, bytes, 16, true);
  EXPECT_EQ(test.name, "quiz");
  EXPECT_EQ(test.rows.choices(), 4u);
  try {
    open_multiple_choice(path, bytes, 5, true);
    ADD_FAILURE() << "too long an ending";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("question 2: an ending of 8 tokens"));
  }
}

}  // namespace
}  // namespace trireme
