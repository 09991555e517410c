#include "tests/trainer/layout/layout_cases.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "tests/tiny_model.h"

namespace trireme::tests {
namespace {

constexpr Family kFamilies[] = {Family::kGpt2, Family::kLlama, Family::kQwen3, Family::kOlmo2,
                                Family::kGemma3};
constexpr Family kSparseFamilies[] = {Family::kQwen3Moe, Family::kGptOss, Family::kGlm4Moe};

// Times kMicroBatch: more tokens than a chunk of a whole MLP has.
constexpr std::int64_t kTwoChunks = 520;

Case with_experts(Case c, Family family) {
  c.family = family;
  c.every_expert = !is_exact(c);
  return c;
}

}  // namespace

bool is_exact(const Case& c) {
  return c.layout.tensor == 1 && (data_ranks(c.layout) * c.layout.context == 1 || c.reproducible);
}

ModelConfig model_of(const Case& c) {
  static constexpr const char* kNames[] = {"gpt2",        "llama",     "qwen3",   "olmo2",
                                           "gemma3_text", "qwen3_moe", "gpt_oss", "glm4_moe"};
  // Fewer key-value heads than tensor = 4.
  ModelConfig m =
      test::tiny_model(kNames[static_cast<int>(c.family)],
                       {.vocab = kVocab, .layers = 8, .heads = c.heads, .positions = c.seq});
  m.tie_word_embeddings = c.tied;
  if (c.layout.expert > 1) {
    m.num_experts = 8;
    if (m.n_group > 1) m.n_group = 4;
  }
  if (c.every_expert) {
    m.num_experts_per_tok = m.num_experts;
    m.topk_group = m.n_group;
  }
  return m;
}

std::string name_of(const Case& c) {
  return say(model_of(c).model_type, c.tied ? "_tied" : "_untied", "_recompute_",
             kRecomputeNames[static_cast<std::size_t>(c.recompute)], "_tensor_", c.layout.tensor,
             c.layout.sequence ? "_sequence" : "", "_pipeline_", c.layout.pipeline, "_",
             c.layout.schedule, "_", c.layout.virtual_stages, "_data_", c.layout.data_replicate,
             "_", c.layout.data_shard, "_zero_", c.layout.zero,
             c.layout.context > 1
                 ? say("_context_", c.layout.context, "_",
                       kContextMethodNames[static_cast<std::size_t>(c.layout.context_method)])
                 : "",
             c.layout.context_ulysses > 1 ? say("_ulysses_", c.layout.context_ulysses) : "",
             c.seq != kSeq ? say("_seq_", c.seq) : "", c.heads != 4 ? say("_heads_", c.heads) : "",
             c.documents ? "" : "_one_document",
             c.layout.expert > 1 ? say("_expert_", c.layout.expert) : "",
             c.reproducible ? "_reproducible" : "", c.every_expert ? "_every_expert" : "");
}
EngineSpec spec_of(const Case& c) {
  EngineSpec spec;
  spec.model = model_of(c);
  spec.data.document_mask = c.documents;
  spec.training.seq_len = c.seq;
  spec.training.local_batch_size = kMicroBatch;
  spec.activation_checkpoint.mode = c.recompute;
  spec.parallelism = c.layout;
  spec.job.reproducible = c.reproducible;
  // With the usual 1e-8 AdamW's first steps are the gradient's signs, and one that is nothing but
  // roundings moves its weight as far as any other.
  spec.optimizer.eps = 1e-3;
  spec.micro_batches = c.micro_batches / data_ranks(c.layout);
  spec.bucket = c.bucket;
  if (!c.tied) spec.training.dropout = {.attention = 0.1, .residual = 0.2, .embedding = 0.1};
  return spec;
}

std::vector<Case> all_cases() {
  struct Order {
    const char* schedule;
    std::int64_t virtual_stages;
  };
  std::vector<Case> cases;
  std::size_t turn = 0;
  for (const std::int64_t tensor : {1, 2, 4}) {
    for (const bool sequence : {false, true}) {
      for (const std::int64_t pipeline : {1, 2, 4}) {
        for (const Order& order :
             {Order{"1F1B", 1}, Order{"GPipe", 1}, Order{"ZBH1", 1}, Order{"Interleaved1F1B", 2}}) {
          if (sequence && tensor == 1) continue;
          if (pipeline == 1 && std::string(order.schedule) != "1F1B") continue;
          if (tensor * pipeline == 1 || tensor * pipeline > 8) continue;
          ParallelismConfig layout;
          layout.tensor = tensor;
          layout.sequence = sequence;
          layout.pipeline = pipeline;
          layout.schedule = order.schedule;
          layout.virtual_stages = order.virtual_stages;
          for (const Family family : kFamilies) {
            for (const bool tied : {true, false}) {
              cases.push_back({family, tied, kRecomputeModes[(turn + turn / 6) % 4], layout});
              ++turn;
            }
          }
          cases.push_back(with_experts(cases.back(), kSparseFamilies[turn % 3]));
        }
      }
    }
  }
  // Eight layers on six stages: some have two, others one.
  for (const std::int64_t tensor : {1, 2}) {
    for (const Family family : kFamilies) {
      ParallelismConfig layout;
      layout.tensor = tensor;
      layout.pipeline = 2;
      layout.schedule = "Interleaved1F1B";
      layout.virtual_stages = 3;
      cases.push_back({family, turn % 2 == 0, kRecomputeModes[turn % 4], layout});
      ++turn;
    }
  }
  return cases;
}

std::vector<Case> data_cases() {
  std::vector<Case> cases;
  std::size_t turn = 0;
  for (const std::int64_t ranks : {2, 4, 8}) {
    for (const std::int64_t tensor : {1, 2, 4}) {
      for (const std::int64_t pipeline : {1, 2, 4}) {
        const std::int64_t data = ranks / (tensor * pipeline);
        if (data < 2 || data * tensor * pipeline != ranks) continue;
        for (std::int64_t replicate = 1; replicate <= data; replicate *= 2) {
          for (const std::int64_t zero : {0, 1, 2, 3}) {
            for (const bool reproducible : {false, true}) {
              ParallelismConfig layout;
              layout.tensor = tensor;
              layout.sequence = tensor > 1 && turn % 2 == 0;
              layout.pipeline = pipeline;
              layout.data_replicate = replicate;
              layout.data_shard = data / replicate;
              layout.zero = zero;
              if (pipeline > 1 && turn % 3 == 1) {
                layout.schedule = "Interleaved1F1B";
                layout.virtual_stages = 2;
              }
              const Family family = kFamilies[turn % std::size(kFamilies)];
              const std::int64_t bucket = turn % 4 == 3 ? Sharing::kWholeStore : 5000;
              cases.push_back({family, (turn / 3) % 2 == 0, kRecomputeModes[(turn + turn / 6) % 4],
                               layout, 16, reproducible, bucket});
              if (turn % 4 == 1) {
                cases.push_back(with_experts(cases.back(), kSparseFamilies[turn / 4 % 3]));
              }
              ++turn;
            }
          }
        }
      }
    }
  }
  return cases;
}

std::vector<Case> expert_cases() {
  std::vector<Case> cases;
  constexpr const char* kSchedules[] = {"1F1B", "ZBH1", "Interleaved1F1B"};
  std::size_t turn = 0;
  for (const std::int64_t ranks : {2, 4, 8}) {
    for (const std::int64_t tensor : {1, 2}) {
      for (const std::int64_t pipeline : {1, 2}) {
        const std::int64_t data = ranks / (tensor * pipeline);
        for (std::int64_t expert = 2; expert <= data; expert *= 2) {
          for (const std::int64_t zero : {0, 1, 2, 3}) {
            for (const bool reproducible : {false, true}) {
              if (ranks == 8 && reproducible == (tensor > 1)) continue;
              ParallelismConfig layout;
              layout.tensor = tensor;
              layout.sequence = tensor > 1 && turn % 2 == 0;
              layout.pipeline = pipeline;
              layout.expert = expert;
              layout.expert_buffer_factor = turn % 3 == 0 ? 1 : 1.5;
              layout.data_replicate = std::size_t{1} << turn / 2 % 3;
              layout.data_replicate = std::min(layout.data_replicate, data);
              layout.data_shard = data / layout.data_replicate;
              layout.zero = zero;
              if (pipeline > 1) layout.schedule = kSchedules[turn % 3];
              if (layout.schedule == "ZBH1" && (reproducible || zero > 1)) layout.schedule = "1F1B";
              if (layout.schedule == "Interleaved1F1B") layout.virtual_stages = 2;
              cases.push_back(with_experts({.family = Family::kQwen3Moe,
                                            .tied = turn % 5 < 2,
                                            .recompute = kRecomputeModes[(turn + turn / 6) % 4],
                                            .layout = layout,
                                            .micro_batches = 16,
                                            .reproducible = reproducible,
                                            .bucket = 5000},
                                           kSparseFamilies[turn % 3]));
              ++turn;
            }
          }
        }
      }
    }
  }
  return cases;
}

std::vector<Case> context_cases() {
  std::vector<Case> cases;
  constexpr const char* kSchedules[] = {"1F1B", "ZBH1", "Interleaved1F1B"};
  std::size_t turn = 0;
  for (const std::int64_t context : {2, 4, 8}) {
    for (const ContextMethod method :
         {ContextMethod::kAllGather, ContextMethod::kRing, ContextMethod::kUlysses}) {
      for (const std::int64_t tensor : {1, 2}) {
        for (const std::int64_t pipeline : {1, 2}) {
          for (const std::int64_t data : {1, 2}) {
            if (context * tensor * pipeline * data > 8) continue;
            for (const std::int64_t zero : {0, 1, 2, 3}) {
              ParallelismConfig layout;
              layout.context = context;
              layout.context_method = method;
              layout.tensor = tensor;
              layout.sequence = tensor > 1 && turn % 3 == 0;
              layout.pipeline = pipeline;
              layout.data_shard = data;
              layout.zero = zero;
              if (pipeline > 1) layout.schedule = kSchedules[turn % 3];
              if (layout.schedule == "ZBH1" && zero > 1) layout.schedule = "1F1B";
              if (layout.schedule == "Interleaved1F1B") layout.virtual_stages = 2;
              for (const bool documents : {true, false}) {
                cases.push_back(
                    {.family = kFamilies[turn % std::size(kFamilies)],
                     .tied = method == ContextMethod::kRing || turn % 2 == 0,  // else dropout
                     .recompute = kRecomputeModes[(turn + turn / 6) % 4],
                     .layout = layout,
                     .micro_batches = 4,
                     .bucket = 5000,
                     .seq = 48,
                     .heads = context * tensor > 4 ? 8 : 4,
                     .documents = documents});
                if (method != ContextMethod::kUlysses && context > 2) {
                  cases.push_back(cases.back());
                  const bool is_wide = context == 8 && turn % 2 == 0;
                  cases.back().layout.context_ulysses = is_wide ? 4 : 2;
                }
                if (method == ContextMethod::kAllGather) {
                  cases.push_back(cases.back());
                  cases.back().layout.context_ulysses = 1;
                  cases.back().reproducible = true;
                  if (layout.schedule == "ZBH1") cases.back().layout.schedule = "1F1B";
                }
                if (turn % 9 == 1) {
                  cases.push_back(with_experts(cases.back(), kSparseFamilies[turn / 9 % 3]));
                }
                if (turn % 9 == 5) {
                  ParallelismConfig divided = layout;
                  divided.expert = turn % 2 == 0 ? context : context * data;
                  Case sparse = cases.back();
                  sparse.layout = divided;
                  sparse.reproducible = false;
                  cases.push_back(with_experts(sparse, kSparseFamilies[turn / 9 % 3]));
                }
                ++turn;
              }
            }
          }
        }
      }
    }
  }
  return cases;
}

std::vector<Case> long_context_cases() {
  std::vector<Case> cases;
  for (const std::int64_t context : {2, 4}) {
    for (const std::int64_t seq : {200, 256}) {
      for (const bool reproducible : {true, false}) {
        for (const ContextMethod method :
             {ContextMethod::kAllGather, ContextMethod::kRing, ContextMethod::kUlysses}) {
          if (reproducible && method != ContextMethod::kAllGather) continue;
          ParallelismConfig layout;
          layout.context = context;
          layout.context_method = method;
          layout.data_shard = 1;
          cases.push_back({.family = seq == 256 ? Family::kLlama : Family::kGemma3,
                           .tied = true,
                           .recompute = Recompute::kSelective,
                           .layout = layout,
                           .micro_batches = 1,
                           .reproducible = reproducible,
                           .seq = seq});
          if (reproducible || method == ContextMethod::kUlysses || context == 2) continue;
          cases.push_back(cases.back());
          cases.back().layout.context_ulysses = 2;
        }
      }
    }
  }
  return cases;
}

std::vector<Case> chunk_cases() {
  std::vector<Case> cases;
  const auto add = [&](Family family, const ParallelismConfig& layout, bool reproducible = false) {
    const Case c{.family = family,
                 .tied = family != Family::kGpt2,
                 .recompute = Recompute::kFull,
                 .layout = layout,
                 .micro_batches = 4,
                 .reproducible = reproducible,
                 .seq = kTwoChunks * layout.tensor * layout.context};
    cases.push_back(family < Family::kQwen3Moe ? c : with_experts(c, family));
  };
  for (const Family family : {Family::kGpt2, Family::kLlama, Family::kGemma3, Family::kGlm4Moe}) {
    for (const bool sequence : {false, true}) {
      ParallelismConfig layout;
      layout.tensor = 2;
      layout.sequence = sequence;
      layout.data_shard = 1;
      add(family, layout);
    }
    ParallelismConfig layout;
    layout.data_shard = 1;
    layout.pipeline = 2;
    layout.schedule = "ZBH1";
    add(family, layout);
  }
  ParallelismConfig layout;
  layout.data_shard = 2;
  layout.zero = 3;
  add(Family::kQwen3, layout, true);
  layout.data_shard = 1;
  layout.context = 2;
  add(Family::kLlama, layout);
  layout.context = 1;
  layout.zero = 1;
  layout.tensor = layout.pipeline = 2;
  layout.sequence = true;
  layout.schedule = "ZBH1";
  add(Family::kOlmo2, layout);
  layout.data_shard = 2;
  layout.zero = 2;
  layout.schedule = "1F1B";
  add(Family::kGpt2, layout);
  return cases;
}

}  // namespace trireme::tests
