#include "trainer/commands/data_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <memory>
#include <optional>

#include "data/tokenizer.h"
#include "trainer/config/batch_size.h"
#include "trainer/config/reader.h"
#include "trainer/config/value_text.h"
#include "trainer/engine/data_feed.h"
#include "trainer/loop/trained_model.h"

namespace trireme {
namespace {

struct Steps {
  std::int64_t first, end;
};

Steps parse_steps(const std::string& text) {
  const auto refuse = [&] {
    throw ConfigError(say("--step ", text,
                          ": give a step (1 or above), or a range A:B (A included, B excluded)"));
  };
  const auto number = [&](std::string_view part) {
    std::int64_t value = 0;
    const auto [end, fault] = std::from_chars(part.data(), part.data() + part.size(), value);
    const bool whole = fault == std::errc() && end == part.data() + part.size();
    if (!whole || value < 1 || value > std::int64_t{1} << 40) refuse();
    return value;
  };
  const std::string_view all = text;
  const std::size_t colon = all.find(':');
  if (colon == std::string_view::npos) return {number(all), number(all) + 1};
  const Steps steps{number(all.substr(0, colon)), number(all.substr(colon + 1))};
  if (steps.first >= steps.end) refuse();
  return steps;
}

std::unique_ptr<data::Tokenizer> tokenizer_for(const RunConfig& config, const std::string& given) {
  if (!given.empty()) return data::open_tokenizer(given);
  const std::optional<std::string> name = tokenizer_of(config);
  if (!name) return nullptr;
  try {
    return data::open_tokenizer(*name);
  } catch (const DataError&) {
    return nullptr;  // moved; positions are still shown
  }
}

// The first words of a document's part of a sample.
std::string beginning(const data::TokenStream& stream, const data::DocumentSlice& slice,
                      const data::Tokenizer* tokenizer) {
  constexpr std::int64_t kTokens = 48;
  constexpr std::size_t kBytes = 60;
  if (tokenizer == nullptr) return "";
  std::vector<std::int32_t> ids(static_cast<std::size_t>(std::min(slice.count, kTokens)));
  stream.read(stream.document_begin(slice.document) + slice.first, ids);
  return "  " + shown(tokenizer->decode(ids), kBytes);
}

void print_sample(const data::SampleSource& source, std::uint64_t sample,
                  const data::Tokenizer* tokenizer) {
  const data::Origin from = source.origin(sample);
  fmt::print("sample {}: {}, its sample {}, epoch {}, window {}\n", sample,
             source.source(from.source).prefix.filename().string(), from.index, from.epoch,
             from.window);
  for (const data::DocumentSlice& slice : source.documents_of(sample)) {
    fmt::print("  document {} [{}, {}){}\n", slice.document, slice.first, slice.first + slice.count,
               beginning(source.stream(from.source), slice, tokenizer));
  }
}

}  // namespace

ExitCode show_steps(const std::string& config_file, const std::vector<Override>& overrides,
                    const std::string& text, const std::string& given) {
  const Steps steps = parse_steps(text);
  const RunConfig config = load_config(config_file, overrides).config;
  const data::SampleSource source = open_training_data(config);
  const data::LeftOut left_out(config.data.skip);
  const auto tokenizer = tokenizer_for(config, given);
  for (std::int64_t step = steps.first; step < steps.end; ++step) {
    fmt::print("step {}\n", step);
    const std::uint64_t first = first_sample_of_step(config, step);
    const auto batch = static_cast<std::uint64_t>(sequences_of_step(config.training, step));
    for (std::uint64_t i = 0; i < batch; ++i) {
      print_sample(source, left_out.sample(first + i), tokenizer.get());
    }
  }
  return ExitCode::kDone;
}

}  // namespace trireme
