#include "data/token_stream.h"

#include "model/base/error.h"

namespace trireme::data {

std::int64_t TokenStream::document_at(std::int64_t token) const {
  require(token >= 0 && token < tokens(), "token ", token, " of ", tokens());
  // The last document that begins at or before the token: if several begin there, all but the last
  // are empty.
  std::int64_t low = 0;
  std::int64_t high = documents() - 1;
  while (low < high) {
    const std::int64_t middle = low + (high - low + 1) / 2;
    if (document_begin(middle) <= token) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

void TokenStream::check_ids(std::int64_t vocab_size, std::int64_t first, std::int64_t last) const {
  const auto at = find_outside(vocab_size, first, last);
  if (!at) return;
  const std::int64_t document = document_at(*at);
  throw DataError(say(token_file(), ": document ", document, ", token ",
                      *at - document_begin(document), " has the id ", token(*at),
                      ", but the model's vocab_size is ", vocab_size,
                      ": set model.vocab_size to at least the tokenizer's, or tokenize with the "
                      "model's tokenizer"));
}

}  // namespace trireme::data
