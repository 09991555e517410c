// Documents that are packed into one sequence do not see each other, whatever the layout: the loss
// of each token is that of its document alone in a sequence as long as it. Run under mpirun; each
// program of N ranks tries the layouts of N ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/base/philox.h"
#include "model/tensor/host_tensor.h"
#include "tests/parallel/mpi_world.h"
#include "tests/tiny_model.h"
#include "tests/trainer/layout/trained_alone.h"

namespace trireme {
namespace {

using tests::kVocab, tests::Trainer;

constexpr std::int64_t kLength = 384, kMostDocuments = 200;  // of a sequence
// Each packing has several targets of a token: the differences between their losses are those
// between its logits.
constexpr std::int64_t kPackings = 4, kRounds = 3, kSequences = kPackings * kRounds;
constexpr std::int64_t kPerMicroBatch = kSequences / 2;

enum class Packed { kGpt2, kLlama, kGemma3 };
constexpr Packed kPacked[] = {Packed::kGpt2, Packed::kLlama, Packed::kGemma3};

// Eight heads of queries, two of keys; with weights large enough that a token's loss shows what it
// sees.
ModelConfig model_of(Packed family) {
  static constexpr const char* kNames[] = {"gpt2", "llama", "gemma3_text"};
  ModelConfig m =
      test::tiny_model(kNames[static_cast<int>(family)],
                       {.vocab = kVocab, .layers = 2, .heads = 8, .positions = kLength});
  m.initializer_range = 0.2;
  if (m.sliding_window > 0) m.sliding_window = 24;
  return m;
}

EngineSpec spec_of(const ModelConfig& model, const ParallelismConfig& layout, std::int64_t seq_len,
                   std::int64_t sequences) {
  EngineSpec spec;
  spec.model = model;
  spec.data.document_mask = true;
  spec.training.seq_len = seq_len;
  spec.training.local_batch_size = sequences;
  spec.parallelism = layout;
  return spec;
}

struct Document {
  std::int64_t first = 0, length = 0;  // row in its packing
};

std::uint64_t seed() {
  const char* const drawn = std::getenv("TRIREME_SEED");
  return drawn ? std::stoull(drawn) : 1;
}

// Documents of as many sequences: of as many documents as possible, of one, and of numbers in
// between.
class Packing {
 public:
  explicit Packing(Packed family)
      : key_(random_key(seed(), say("packing ", static_cast<int>(family)))) {
    for (std::int64_t packing = 0; packing < kPackings; ++packing) {
      const std::int64_t drawn = 1 + word(kCount, packing) % kMostDocuments;
      pack(packing, packing == 0 ? kMostDocuments : packing == 1 ? 1 : drawn);
    }
  }

  const std::vector<Document>& documents(std::int64_t sequence) const {
    return documents_.at(static_cast<std::size_t>(sequence / kRounds));
  }
  std::int32_t id(std::int64_t sequence, std::int64_t row) const {
    return static_cast<std::int32_t>(word(kId, sequence / kRounds * kLength + row) % kVocab);
  }
  std::int32_t target(std::int64_t sequence, std::int64_t row) const {
    return static_cast<std::int32_t>(word(kTarget, sequence * kLength + row) % kVocab);
  }

 private:
  enum Purpose : std::uint8_t { kCount, kStart, kId, kTarget };
  std::uint32_t word(Purpose purpose, std::int64_t number) const {
    return philox(key_, purpose, static_cast<std::uint64_t>(number))[0];
  }

  // Their starts are drawn among all rows.
  void pack(std::int64_t packing, std::int64_t count) {
    std::vector<std::pair<std::uint32_t, std::int64_t>> rows;  // a drawn number, row
    for (std::int64_t row = 1; row < kLength; ++row) {
      rows.emplace_back(word(kStart, packing * kLength + row), row);
    }
    std::ranges::sort(rows);
    std::vector<std::int64_t> bounds{0, kLength};
    for (std::int64_t i = 1; i < count; ++i) {
      bounds.push_back(rows[static_cast<std::size_t>(i)].second);
    }
    std::ranges::sort(bounds);
    std::vector<Document>& documents = documents_.emplace_back();
    for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
      documents.push_back({bounds[i], bounds[i + 1] - bounds[i]});
    }
  }

  std::uint64_t key_;
  std::vector<std::vector<Document>> documents_;  // by packing
};

// Writes a document of a sequence to a batch, from row `at` of one of its sequences on.
void put(const data::TokenBatch& to, std::int64_t at, const Packing& packing, std::int64_t sequence,
         const Document& document) {
  for (std::int64_t i = 0; i < document.length; ++i) {
    const auto here = static_cast<std::size_t>(at + i);
    to.ids[here] = packing.id(sequence, document.first + i);
    to.targets[here] = packing.target(sequence, document.first + i);
    to.document_start[here] = static_cast<std::int32_t>(at);
    to.positions[here] = static_cast<std::int32_t>(i);
  }
}

using Losses = std::vector<double>;  // [kSequences, kLength]

struct Place {
  std::int64_t sequence = 0;
  Document document;
};

// Documents of one length, each in a sequence of its own.
void add_alone(Losses& losses, const ModelConfig& model, const Packing& packing,
               const std::vector<Place>& places) {
  const std::int64_t length = places.front().document.length;
  const RankGroups alone;
  Trainer trainer(spec_of(model, {}, length, std::ssize(places)), alone);
  for (std::int64_t i = 0; i < std::ssize(places); ++i) {
    const Place& place = places[static_cast<std::size_t>(i)];
    put(trainer.engine.batch().part(i, 1), 0, packing, place.sequence, place.document);
  }
  const Losses found = trainer.engine.token_losses();
  for (std::int64_t i = 0; i < std::ssize(places); ++i) {
    const Place& place = places[static_cast<std::size_t>(i)];
    std::copy_n(found.begin() + i * length, length,
                losses.begin() + place.sequence * kLength + place.document.first);
  }
}

// Every rank computes some documents' losses. Collective over the world.
Losses losses_alone(const ModelConfig& model, const Packing& packing) {
  std::map<std::int64_t, std::vector<Place>> of_length;
  for (std::int64_t sequence = 0; sequence < kSequences; ++sequence) {
    for (const Document& document : packing.documents(sequence)) {
      of_length[document.length].push_back({sequence, document});
    }
  }
  Losses losses(static_cast<std::size_t>(kSequences * kLength));
  const auto ranks = tests::all_ranks();
  int turn = 0;
  for (const auto& [length, places] : of_length) {
    if (turn++ % ranks->size() == ranks->rank()) add_alone(losses, model, packing, places);
  }
  Stream stream;
  ranks->all_reduce(stream, host_tensor(std::span(losses)), Reduce::kSum);
  return losses;
}

// The largest relative difference of any token's loss in a layout from its document's alone.
double worst_of(const EngineSpec& spec, const Packing& packing, const Losses& expected,
                bool is_masked = true) {
  const RankGroups groups(tests::world(), spec.parallelism, spec.model);
  Trainer trainer(spec, groups);
  Engine& engine = trainer.engine;
  std::vector<std::int64_t> sequences;  // of this rank
  for (std::int64_t own = 0; own < spec.micro_batches; ++own) {
    const std::int64_t first =
        engine.micro_batches().number(engine.data_rank(), own) * kPerMicroBatch;
    for (std::int64_t i = 0; i < kPerMicroBatch; ++i) sequences.push_back(first + i);
  }
  for (std::int64_t i = 0; i < std::ssize(sequences); ++i) {
    const std::int64_t sequence = sequences[static_cast<std::size_t>(i)];
    for (const Document& document : packing.documents(sequence)) {
      put(engine.batch().part(i, 1), document.first, packing, sequence, document);
    }
  }
  if (!is_masked) std::ranges::fill(engine.batch().document_start, 0);
  const Losses found = engine.token_losses();
  const bool is_last_stage = groups.pp_forward->rank() == groups.pp_forward->size() - 1;
  EXPECT_EQ(std::ssize(found), is_last_stage ? std::ssize(sequences) * kLength : 0);
  double worst[] = {0};
  for (std::int64_t i = 0; i < std::ssize(found); ++i) {
    const std::int64_t sequence = sequences[static_cast<std::size_t>(i / kLength)];
    const double right = expected[static_cast<std::size_t>(sequence * kLength + i % kLength)];
    const double off = std::fabs(found[static_cast<std::size_t>(i)] - right) / right;
    if (!(off <= worst[0])) worst[0] = off;
  }
  Stream stream;
  groups.all->all_reduce(stream, host_tensor(std::span(worst)), Reduce::kMax);
  return worst[0];
}

struct Case {
  ParallelismConfig layout;
  bool reproducible = false;
};

std::string name_of(const Case& c) {
  return say("context ", c.layout.context, " ",
             kContextMethodNames[static_cast<std::size_t>(c.layout.context_method)],
             c.layout.context_ulysses > 1 ? say(" ulysses ", c.layout.context_ulysses) : "",
             c.reproducible ? " reproducible" : "", ", tensor ", c.layout.tensor, ", pipeline ",
             c.layout.pipeline, ", data ", c.layout.data_shard);
}

std::vector<Case> cases_of(std::int64_t ranks) {
  std::vector<Case> cases;
  for (const std::int64_t tensor : {1, 2}) {
    for (const std::int64_t pipeline : {1, 2}) {
      for (const std::int64_t data : {1, 2}) {
        const std::int64_t context = ranks / (tensor * pipeline * data);
        if (context * tensor * pipeline * data != ranks) continue;
        Case c;
        c.layout.tensor = tensor;
        c.layout.sequence = tensor > 1 && pipeline == 1;
        c.layout.pipeline = pipeline;
        c.layout.data_shard = data;
        c.layout.context = context;
        for (const ContextMethod method :
             {ContextMethod::kAllGather, ContextMethod::kRing, ContextMethod::kUlysses}) {
          c.layout.context_method = method;
          cases.push_back(c);
          if (context == 1) break;
          if (context == 2 || method == ContextMethod::kUlysses) continue;
          cases.push_back(c);
          cases.back().layout.context_ulysses = 2;
        }
        c.layout.context_method = ContextMethod::kAllGather;
        c.reproducible = true;
        cases.push_back(c);
      }
    }
  }
  return cases;
}

EngineSpec spec_of(const Case& c, const ModelConfig& model) {
  EngineSpec spec = spec_of(model, c.layout, kLength, kPerMicroBatch);
  spec.micro_batches = kSequences / kPerMicroBatch / c.layout.data_shard;
  spec.job.reproducible = c.reproducible;
  return spec;
}

struct Reference {
  ModelConfig model;
  Packing packing;
  Losses losses;
};

const Reference& reference_of(Packed family) {
  static std::map<Packed, Reference> known;
  auto at = known.find(family);
  if (at == known.end()) {
    const ModelConfig model = model_of(family);
    const Packing packing(family);
    at = known.emplace(family, Reference{model, packing, losses_alone(model, packing)}).first;
  }
  return at->second;
}

// Layouts of context ranks alone with every family, the others with one after the other.
TEST(PackedDocuments, have_the_losses_of_documents_alone) {
  std::uint64_t turn = seed();
  for (const Case& c : cases_of(tests::world().size())) {
    const bool all = c.layout.context == tests::world().size() || std::getenv("TRIREME_THOROUGH");
    ++turn;
    for (const Packed family : kPacked) {
      if (!all && family != kPacked[turn % std::size(kPacked)]) continue;
      const Reference& reference = reference_of(family);
      const EngineSpec spec = spec_of(c, reference.model);
      EXPECT_LE(worst_of(spec, reference.packing, reference.losses), 1e-5)
          << name_of(c) << ' ' << reference.model.model_type;
    }
  }
}

// The same comparison finds documents that see each other.
TEST(PackedDocuments, have_other_losses_without_the_mask) {
  const Reference& reference = reference_of(Packed::kLlama);
  for (const Case& c : cases_of(tests::world().size())) {
    if (c.layout.context != tests::world().size()) continue;
    const double worst = worst_of(spec_of(c, reference.model), reference.packing, reference.losses,
                                  /*is_masked=*/false);
    EXPECT_GE(worst, 0.1) << name_of(c);
  }
}

}  // namespace
}  // namespace trireme
