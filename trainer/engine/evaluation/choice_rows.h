#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "data/token_batch.h"
#include "trainer/engine/evaluation/choice.h"

namespace trireme {

// Choices of different lengths packed into rows of seq_len tokens. With `documents` (attention is
// masked at document boundaries) a row holds as many choices as fit, each as a document; otherwise
// one. The rest of a row has no targets.
class ChoiceRows {
 public:
  // None of the choices has more than seq_len + 1 ids.
  ChoiceRows(std::vector<Choice> choices, std::int64_t seq_len, bool documents);

  std::int64_t rows() const { return rows_; }
  std::size_t choices() const { return choices_.size(); }

  // Fills the batch with the rows from `first` on; those beyond the last are empty.
  void fill(const data::TokenBatch& batch, std::int64_t first) const;

  // Adds the log-likelihoods of a batch filled from row `first` to those of the choices, in nats:
  // losses [sequences * seq_len], one per token; log_likelihoods [choices].
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
