#include "trainer/commands/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/open_tokens.h"
#include "data/sidecar.h"
#include "data/tokenizer.h"
#include "model/base/human.h"
#include "trainer/commands/data_steps.h"

namespace trireme {
namespace {

using data::Sidecar;
using data::TokenStream;

struct DataOptions {
  std::string prefix;
  std::int64_t document = -1;
  std::string tokens;
  std::string tokenizer;
  std::int64_t vocab_size = 0;
  std::string steps;
};

void print_lengths(const TokenStream& dataset) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(dataset.documents()));
  for (std::int64_t d = 0; d < dataset.documents(); ++d) sizes[d] = dataset.document_size(d);
  if (sizes.empty()) return;
  std::sort(sizes.begin(), sizes.end());
  const auto at = [&](double share) {
    return grouped(sizes[static_cast<std::size_t>(share * static_cast<double>(sizes.size() - 1))]);
  };
  fmt::print("document length  shortest {}, median {}, mean {:.1f}, 95 % {}, longest {}\n", at(0),
             at(0.5),
             static_cast<double>(dataset.tokens()) / static_cast<double>(dataset.documents()),
             at(0.95), at(1));
  const auto filled = std::upper_bound(sizes.begin(), sizes.end(), 0);
  if (filled != sizes.begin()) fmt::print("empty documents  {}\n", grouped(filled - sizes.begin()));
}

ExitCode info(const DataOptions& options) {
  const auto opened = data::open_tokens(options.prefix);
  const TokenStream& dataset = *opened;
  fmt::print("dataset          {} ({})\n", options.prefix, dataset.format());
  fmt::print("tokens           {} of {} ({})\n", grouped(dataset.tokens()),
             data::name_of(dataset.type()), human_bytes(dataset.token_bytes()));
  fmt::print("documents        {} in {} sequences\n", grouped(dataset.documents()),
             grouped(dataset.sequences()));
  print_lengths(dataset);
  const auto sidecar = data::read_sidecar(options.prefix, dataset);
  if (!sidecar) {
    fmt::print("sidecar          none for these files\n");
    return ExitCode::kDone;
  }
  fmt::print("tokenizer        {}{}{} (vocabulary {}, hash {})\n", sidecar->tokenizer,
             sidecar->tokenizer_path.empty() ? "" : " ", sidecar->tokenizer_path,
             grouped(sidecar->vocab_size), sidecar->tokenizer_hash);
  fmt::print("end of document  {}\n", sidecar->end_of_document < 0
                                          ? std::string("no token")
                                          : fmt::format("id {}", sidecar->end_of_document));
  fmt::print("highest id       {}\n", sidecar->highest_id);
  fmt::print("text             {} ({:.3f} bytes per token)\n",
             human_bytes(static_cast<std::uint64_t>(sidecar->text_bytes)),
             static_cast<double>(sidecar->text_bytes) /
                 static_cast<double>(std::max<std::int64_t>(sidecar->tokens, 1)));
  return ExitCode::kDone;
}

struct Range {
  std::int64_t begin, end;
};

// "A:B", either may be missing; cut to [0, size).
Range parse_range(const std::string& text, std::int64_t size) {
  const auto refuse = [&] {
    throw ConfigError(
        say("--tokens ", text, ": give a range A:B, such as 0:100 (A included, B excluded)"));
  };
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) refuse();
  const auto number = [&](std::size_t from, std::size_t to, std::int64_t missing) {
    if (from == to) return missing;
    std::int64_t value = 0;
    const auto [end, fault] = std::from_chars(text.data() + from, text.data() + to, value);
    if (fault != std::errc() || end != text.data() + to || value < 0) refuse();
    return value;
  };
  const Range range{number(0, colon, 0), std::min(size, number(colon + 1, text.size(), size))};
  if (range.begin > range.end) {
    throw ConfigError(
        say("--tokens ", text, ": is empty or out of range (there are ", size, " tokens)"));
  }
  return range;
}

// --tokenizer, otherwise the one that the sidecar names if it has not changed.
std::unique_ptr<data::Tokenizer> tokenizer_of(const DataOptions& options,
                                              const TokenStream& dataset) {
  if (!options.tokenizer.empty()) return data::open_tokenizer(options.tokenizer);
  const auto sidecar = data::read_sidecar(options.prefix, dataset);
  if (!sidecar) return nullptr;
  const bool bytes = sidecar->tokenizer == "bytes";
  try {
    auto tokenizer = data::open_tokenizer(bytes ? sidecar->tokenizer : sidecar->tokenizer_path);
    if (tokenizer->hash() == sidecar->tokenizer_hash) return tokenizer;
  } catch (const DataError&) {
    return nullptr;  // moved; ids are still shown
  }
  return nullptr;
}

ExitCode show(const DataOptions& options, const std::vector<Override>& overrides) {
  if (!options.steps.empty()) {
    if (options.document >= 0 || !options.tokens.empty()) {
      throw ConfigError(
          "--step prints whole samples; it cannot be combined with --document or --tokens");
    }
    return show_steps(options.prefix, overrides, options.steps, options.tokenizer);
  }
  const auto opened = data::open_tokens(options.prefix);
  const TokenStream& dataset = *opened;
  if (options.document >= dataset.documents()) {
    throw ConfigError(say("--document ", options.document, ": ", options.prefix, " has ",
                          dataset.documents(), " documents, counted from 0"));
  }
  // Without --document, --tokens counts over the whole dataset.
  const bool whole = options.document < 0 && !options.tokens.empty();
  const std::int64_t document = std::max<std::int64_t>(options.document, 0);
  const bool any = dataset.documents() > 0;
  const std::int64_t base = whole || !any ? 0 : dataset.document_begin(document);
  const std::int64_t size = whole ? dataset.tokens() : any ? dataset.document_size(document) : 0;
  constexpr const char* kFirst = ":64";
  const bool all = options.document >= 0 && options.tokens.empty();
  const Range range = parse_range(all                      ? ":"
                                  : options.tokens.empty() ? kFirst
                                                           : options.tokens,
                                  size);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(range.end - range.begin));
  dataset.read(base + range.begin, ids);

  fmt::print("{}: tokens {} to {} of {}\n",
             whole ? options.prefix : fmt::format("document {}", document), range.begin, range.end,
             size);
  fmt::print("{}\n", fmt::join(ids, " "));
  if (const auto tokenizer = tokenizer_of(options, dataset)) {
    fmt::print("---\n{}\n", tokenizer->decode(ids));
  } else {
    fmt::print("(give --tokenizer to see the text)\n");
  }
  return ExitCode::kDone;
}

ExitCode check(const DataOptions& options) {
  const auto opened = data::open_tokens(options.prefix);  // checks everything except ids
  const TokenStream& dataset = *opened;
  const auto sidecar = data::read_sidecar(options.prefix, dataset);
  const bool given = options.vocab_size > 0;
  // Vocabulary sizes fit an int32.
  std::int64_t vocab_size = std::int64_t{1} + std::numeric_limits<std::int32_t>::max();
  if (sidecar) vocab_size = sidecar->vocab_size;
  if (given) vocab_size = options.vocab_size;
  dataset.check_ids(vocab_size, 0, dataset.tokens());
  fmt::print("{}: good: {} documents, {} tokens of {}, every id ", options.prefix,
             grouped(dataset.documents()), grouped(dataset.tokens()),
             data::name_of(dataset.type()));
  if (given || sidecar) {
    fmt::print("below {}\n", vocab_size);
  } else {
    fmt::print("fits its dtype (give --vocab-size to check against a model's vocabulary)\n");
  }
  return ExitCode::kDone;
}

}  // namespace

Command make_data(CLI::App& program, const std::vector<Override>& overrides) {
  const auto options = std::make_shared<DataOptions>();
  CLI::App* app = program.add_subcommand("data", "Inspect and check token files");
  app->require_subcommand(1);
  const auto verb = [&](const char* name, const char* help) {
    CLI::App* added = app->add_subcommand(name, help);
    added
        ->add_option("PREFIX", options->prefix,
                     "Token files: their path without .bin and .idx, or a shard of llm.c, LLM.Q or "
                     "datatrove, or several shards as FOLDER/NAME*.bin")
        ->required();
    return added;
  };
  verb("info", "Print token and document counts, dtype, tokenizer and document lengths");
  CLI::App* shown = verb("show", "Print tokens, with their text if the tokenizer is known");
  shown->add_option("--document", options->document, "Document to print, counted from 0")
      ->check(CLI::NonNegativeNumber)
      ->type_name("N");
  shown
      ->add_option("--tokens", options->tokens,
                   "Range of tokens to print, B excluded, counted from the start of --document if "
                   "given, otherwise of the dataset")
      ->type_name("A:B");
  shown->add_option(
      "--tokenizer", options->tokenizer,
      "Tokenizer: bytes, or a file or folder as in 'trireme tokenize' (default: the dataset's)");
  shown
      ->add_option("--step", options->steps,
                   "Print the samples of these training steps and their documents; PREFIX is then "
                   "a config file (applies data.skip, but not what a run skipped after bad steps)")
      ->type_name("N|A:B");
  CLI::App* checked =
      verb("check", "Check the index and every token id; fails if the files are damaged");
  checked
      ->add_option(
          "--vocab-size", options->vocab_size,
          "Vocabulary size that every token id must be below (default: the tokenizer's, if known)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 31))
      ->type_name("N");
  return {.app = app,
          .run =
              [options, app, &overrides] {
                if (options->steps.empty() && !overrides.empty()) {
                  throw ConfigError("--section.key=value is for --step only");
                }
                if (app->got_subcommand("info")) return info(*options);
                if (app->got_subcommand("show")) return show(*options, overrides);
                return check(*options);
              },
          .takes_overrides = true};
}

}  // namespace trireme
