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
                .help = "token files to train on, as [{path = \"PREFIX\", weight = 1.0}, ...]",
                .effect = Effect::kData,
                .default_text = "required"});
  to.push_back({.key = "data.stages",
                .slot = TRIREME_MEMBER(data.stages),
                .help = "other sources or weights from a step on, as [{from_step = 1000, train = "
                        "[...]}, ...]; every source goes on where it was",
                .effect = Effect::kData,
                .range = {.least = 2, .most = 1e12}});
  to.push_back({.key = "data.order",
                .slot = TRIREME_MEMBER(data.order),
                .help = "of the training samples: ours, which needs no memory, or the one that "
                        "Megatron-LM takes them in",
                .effect = Effect::kData,
                .allowed = {"trireme", "megatron"}});
  to.push_back({.key = "data.order_samples",
                .slot = TRIREME_MEMBER(data.order_samples),
                .help = "how many samples Megatron-LM's order is made for (its train_samples), on "
                        "which it depends; 0: those of the run",
                .effect = Effect::kData,
                .range = between(0, 1e12),
                .unit = "samples",
                .applies = has_megatron_order});
  to.push_back({.key = "data.validation",
                .slot = TRIREME_MEMBER(data.validation),
                .help = "token files to validate on, in the same form; those of one name are a set "
                        "with metrics of its own"});
  to.push_back({.key = "data.document_mask",
                .slot = TRIREME_MEMBER(data.document_mask),
                .help = "attention stays inside a document, positions restart with it, and its "
                        "last token predicts nothing: the loss is the mean over the others",
                .effect = Effect::kNumerics});
  to.push_back({.key = "data.split",
                .slot = TRIREME_MEMBER(data.split),
                .help = "share of the training documents kept back for validation",
                .effect = Effect::kData,
                .range = from_up_to(0, 1)});
  to.push_back({.key = "data.tokenizer",
                .slot = TRIREME_MEMBER(data.tokenizer),
                .help = "what made the token files: bytes, a tokenizer.json, a SentencePiece "
                        ".model or a Hugging Face folder; for samples and bits per byte",
                .allowed = {"bytes"},
                .or_path = true});
  to.push_back({.key = "data.skip",
                .slot = TRIREME_MEMBER(data.skip),
                .help = "ranges of the training order to leave out, as [[first, end], ...]",
                .effect = Effect::kData,
                .range = at_least(0),
                .unit = "samples"});
  to.push_back({.key = "data.verify",
                .slot = TRIREME_MEMBER(data.verify),
                .help =
                    "at each start read all bytes of the token files, once a node, and compare "
                    "them with the hashes that tokenize left in PREFIX.json; a bit that differs "
                    "ends the run with exit code 3"});
}

}  // namespace trireme
