#include "trainer/config/option_table.h"

namespace trireme {
namespace {

bool has_megatron_order(const RunConfig& c) {
  return c.data.order == "megatron";
}

}  // namespace

void add_data(Options& to) {
  to.push_back({.key = "data.train",
                .slot = TRIREME_MEMBER(data.train),
                .help = "token files to train on and their weights in the mixture, as [{path = "
                        "\"PREFIX\", weight = 1.0}, ...]",
                .effect = Effect::kData,
                .default_text = "required"});
  to.push_back({.key = "data.stages",
                .slot = TRIREME_MEMBER(data.stages),
                .help = "changes at a step, as [{from_step = 1000, train = [...]}, {from_step = "
                        "2000, seq_len = 8192, rope_scaling = {...}}, ...]: the mixture, where a "
                        "source that stays continues at its position; the tokens of a sequence, "
                        "where every source starts over, cut into sequences of the new length; and "
                        "model.rope_scaling. Each lasts until a later stage changes it; "
                        "training.global_batch_size stays in sequences, so a step has more tokens",
                .effect = Effect::kData,
                .range = {.least = 2, .most = 1e12}});
  to.push_back({.key = "data.order",
                .slot = TRIREME_MEMBER(data.order),
                .help = "order of the training samples; trireme: a pseudorandom permutation that "
                        "needs no index; megatron: the same order as Megatron-LM",
                .effect = Effect::kData,
                .allowed = {"trireme", "megatron"}});
  to.push_back({.key = "data.order_samples",
                .slot = TRIREME_MEMBER(data.order_samples),
                .help = "order = megatron: number of samples in Megatron-LM's index (its "
                        "train_samples), on which the order depends; 0: the samples of this run",
                .effect = Effect::kData,
                .range = between(0, 1e12),
                .unit = "samples",
                .applies = has_megatron_order});
  to.push_back({.key = "data.validation",
                .slot = TRIREME_MEMBER(data.validation),
                .help = "token files to validate on, as in data.train, with an optional name = "
                        "\"NAME\"; entries with the same name form a set with its own metrics"});
  to.push_back({.key = "data.document_mask",
                .slot = TRIREME_MEMBER(data.document_mask),
                .help = "restrict attention to one document, restart position ids at each "
                        "document, and exclude a document's last token from the loss",
                .effect = Effect::kNumerics});
  to.push_back({.key = "data.split",
                .slot = TRIREME_MEMBER(data.split),
                .help = "fraction of the documents in data.train to hold out for validation",
                .effect = Effect::kData,
                .range = from_up_to(0, 1)});
  to.push_back(
      {.key = "data.tokenizer",
       .slot = TRIREME_MEMBER(data.tokenizer),
       .help = "tokenizer of the token files: bytes, a tokenizer.json, a SentencePiece .model or a "
               "Hugging Face folder; needed for text samples, multiple choice and bits per byte",
       .allowed = {"bytes"},
       .or_path = true});
  to.push_back(
      {.key = "data.skip",
       .slot = TRIREME_MEMBER(data.skip),
       .help = "samples to skip, as ranges of the training order [[first, end], ...], end excluded",
       .effect = Effect::kData,
       .range = at_least(0),
       .unit = "samples"});
  to.push_back(
      {.key = "data.verify",
       .slot = TRIREME_MEMBER(data.verify),
       .help =
           "before each start, compare every byte of the token files with the hashes in "
           "PREFIX.json (written by trireme tokenize), once per node; exit code 3 if they differ"});
}

}  // namespace trireme
