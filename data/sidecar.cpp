#include "data/sidecar.h"

#include <nlohmann/json.hpp>

#include "data/hex.h"
#include "data/indexed_dataset.h"
#include "model/base/error.h"
#include "model/base/file.h"

namespace trireme::data {
namespace {

constexpr const char* kSidecarFormat = "trireme-tokens-1";

}  // namespace

void write_sidecar(const std::filesystem::path& prefix, const Sidecar& sidecar,
                   const TokenStream& dataset) {
  const nlohmann::ordered_json json{{"format", kSidecarFormat},
                                    {"tokenizer", sidecar.tokenizer},
                                    {"tokenizer_path", sidecar.tokenizer_path},
                                    {"tokenizer_hash", sidecar.tokenizer_hash},
                                    {"vocab_size", sidecar.vocab_size},
                                    {"end_of_document", sidecar.end_of_document},
                                    {"documents", sidecar.documents},
                                    {"tokens", sidecar.tokens},
                                    {"text_bytes", sidecar.text_bytes},
                                    {"highest_id", sidecar.highest_id},
                                    {"index_bytes", dataset.index_bytes()},
                                    {"token_bytes", dataset.token_bytes()},
                                    {"sampled_hash", hex(dataset.sampled_hash())}};
  // A path need not be UTF-8; JSON must be.
  constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
  replace_text(sidecar_path(prefix), json.dump(2, ' ', false, kReplace) + "\n");
}

std::optional<Sidecar> read_sidecar(const std::filesystem::path& prefix,
                                    const TokenStream& dataset) {
  try {
    const auto json = nlohmann::json::parse(read_text(sidecar_path(prefix), 1u << 20));
    if (json.at("format") != kSidecarFormat) return std::nullopt;
    if (json.at("index_bytes") != dataset.index_bytes()) return std::nullopt;
    if (json.at("token_bytes") != dataset.token_bytes()) return std::nullopt;
    if (json.at("sampled_hash") != hex(dataset.sampled_hash())) return std::nullopt;
    Sidecar sidecar;
    json.at("tokenizer").get_to(sidecar.tokenizer);
    json.at("tokenizer_path").get_to(sidecar.tokenizer_path);
    json.at("tokenizer_hash").get_to(sidecar.tokenizer_hash);
    json.at("vocab_size").get_to(sidecar.vocab_size);
    json.at("end_of_document").get_to(sidecar.end_of_document);
    json.at("documents").get_to(sidecar.documents);
    json.at("tokens").get_to(sidecar.tokens);
    json.at("text_bytes").get_to(sidecar.text_bytes);
    json.at("highest_id").get_to(sidecar.highest_id);
    return sidecar;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  } catch (const EnvironmentError&) {
    return std::nullopt;  // missing, as far as anyone here cares
  }
}

}  // namespace trireme::data
