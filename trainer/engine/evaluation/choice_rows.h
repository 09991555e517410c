#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "trainer/engine/evaluation/choice.h"
#include "trainer/engine/token_batch.h"

namespace trireme {

// Choices of different lengths laid out in rows of seq_len tokens: where attention stays inside
// documents, as many in a row as have room, each a document; else one in a row. What is left of a
// row predicts nothing.
class ChoiceRows {
 public:
  // None of the choices has more than seq_len + 1 ids.
  ChoiceRows(std::vector<Choice> choices, std::int64_t seq_len, bool documents);

  std::int64_t rows() const { return rows_; }
  std::size_t choices() const { return choices_.size(); }

  // Fills the batch with the rows from `first` on; those beyond the last are empty.
  void fill(const TokenBatch& batch, std::int64_t first) const;

  // Adds to the choices' log-likelihoods what the losses of a batch so filled say, in nats, one a
  // token: losses [sequences * seq_len], log_likelihoods [choices].
  void add(std::span<const double> losses, std::int64_t first,
           std::span<double> log_likelihoods) const;

 private:
  struct Place {
    std::int64_t row = 0, at = 0;
  };
  // The choices in rows [first, end).
  std::pair<std::size_t, std::size_t> inside(std::int64_t first, std::int64_t end) const;

  std::vector<Choice> choices_;
  std::int64_t seq_len_;
  bool documents_;
  std::vector<Place> places_;  // of the choices, row by row
  std::int64_t rows_ = 0;
};

}  // namespace trireme
