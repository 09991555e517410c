#include "parallel/tensor/tensor_split.h"

#include <functional>
#include <string>

#include "model/params/cut.h"

namespace trireme {
namespace {

using Allowed = std::function<bool(std::int64_t)>;

bool one_divides_the_other(std::int64_t a, std::int64_t b) {
  return a % b == 0 || b % a == 0;
}

bool possible(const ModelConfig& model, std::int64_t ranks) {
  return model.num_attention_heads % ranks == 0 && model.intermediate_size % ranks == 0 &&
         one_divides_the_other(model.num_key_value_heads, ranks);
}

// "2 or 4": the nearest allowed values on both sides of `value`, of 1 to `most`. Empty
// when there is none.
std::string nearest(std::int64_t value, std::int64_t most, const Allowed& allowed) {
  std::int64_t below = value - 1;
  while (below > 0 && !allowed(below)) --below;
  std::int64_t above = value + 1;
  while (above <= most && !allowed(above)) ++above;
  std::string text = below > 0 ? std::to_string(below) : "";
  if (above <= most) text.append(text.empty() ? "" : " or ").append(std::to_string(above));
  return text;
}

struct Key {
  const char* name;
  std::int64_t value;
  Allowed allowed;  // with the ranks asked for
};

[[noreturn]] void refuse(const ModelConfig& model, std::int64_t ranks, const Key& key,
                         const char* why) {
  const std::string for_ranks =
      nearest(ranks, model.num_attention_heads, [&](auto n) { return possible(model, n); });
  const std::string for_key = nearest(key.value, key.value + ranks * key.value, key.allowed);
  std::string fixes = for_ranks.empty() ? "" : say("parallelism.tensor = ", for_ranks);
  if (!for_key.empty()) {
    fixes.append(fixes.empty() ? "" : ", or ").append(say(key.name, " = ", for_key));
  }
  throw ConfigError(say("parallelism.tensor = ", ranks, " and ", key.name, " = ", key.value, ": ",
                        why, "; nearest possible: ", fixes));
}

}  // namespace

void check_tensor_split(const ModelConfig& model, std::int64_t ranks) {
  const std::int64_t heads = model.num_attention_heads, kv_heads = model.num_key_value_heads;
  if (heads % ranks != 0) {
    refuse(model, ranks,
           {"model.num_attention_heads", heads,
            [&](auto n) { return n % ranks == 0 && n % kv_heads == 0; }},
           "every rank must get the same number of heads");
  }
  if (!one_divides_the_other(kv_heads, ranks)) {
    refuse(model, ranks,
           {"model.num_key_value_heads", kv_heads,
            [&](auto n) { return heads % n == 0 && one_divides_the_other(n, ranks); }},
           "every rank must get the same number of key-value heads, or share one with the same "
           "number of others");
  }
  if (model.intermediate_size % ranks != 0) {
    refuse(model, ranks,
           {"model.intermediate_size", model.intermediate_size,
            [&](auto n) { return n % ranks == 0; }},
           "every rank must get the same share of the MLP");
  }
}

void check_sequence_split(std::int64_t local_batch_size, std::int64_t seq_len, std::int64_t ranks) {
  const auto divides = [&](std::int64_t n) { return local_batch_size * n % ranks == 0; };
  if (divides(seq_len)) return;
  throw ConfigError(
      say("parallelism.sequence shares out a micro-batch's tokens, but "
          "training.local_batch_size = ",
          local_batch_size, " times training.seq_len = ", seq_len,
          " does not divide by parallelism.tensor = ", ranks,
          "; nearest possible: training.seq_len = ", nearest(seq_len, seq_len + ranks, divides)));
}

int key_value_replicas(const ModelConfig& model, int ranks) {
  return cut_pieces(0, model.num_key_value_heads, {0, ranks}).replica.count;
}

}  // namespace trireme
