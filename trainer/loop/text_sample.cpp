#include "trainer/loop/text_sample.h"

#include <algorithm>

namespace trireme {

std::vector<std::int32_t> prompt_ids(const data::Tokenizer& tokenizer, const std::string& text) {
  std::vector<std::int32_t> ids = tokenizer.encode(text);
  if (ids.empty()) ids.push_back(std::max(tokenizer.end_of_document(), 0));
  return ids;
}

std::string continued(Decoder& decoder, const data::Tokenizer& tokenizer,
                      const TextSample& sample) {
  decoder.restart();
  std::vector<float> logits;
  for (const std::int32_t id : sample.prompt) logits = decoder.next_logits(id);
  std::vector<std::int32_t> answer;
  for (std::int64_t i = 0; i < sample.most; ++i) {
    // A padded vocabulary has ids that mean nothing.
    const std::vector<float> known(logits.begin(), logits.begin() + tokenizer.vocab_size());
    const std::int32_t id = trireme::sample(known, sample.how, i);
    if (id == tokenizer.end_of_document()) break;
    answer.push_back(id);
    if (i + 1 < sample.most) logits = decoder.next_logits(id);
  }
  return tokenizer.decode(answer);
}

}  // namespace trireme
