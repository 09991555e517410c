#include "data/indexed_dataset.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "model/base/error.h"

namespace trireme::data {
namespace {

constexpr std::string_view kMagic{"MMIDIDX\0\0", 9};
constexpr std::size_t kIndexHeaderBytes = 34;

constexpr const char* kTokenizeAgain = "write the pair again with `trireme tokenize`";

}  // namespace

std::filesystem::path index_path(const std::filesystem::path& prefix) {
  return prefix.string() + ".idx";
}
std::filesystem::path tokens_path(const std::filesystem::path& prefix) {
  return prefix.string() + ".bin";
}
std::filesystem::path sidecar_path(const std::filesystem::path& prefix) {
  return prefix.string() + ".json";
}

IndexedDataset::IndexedDataset(const std::filesystem::path& prefix)
    : PackedTokens(prefix.string(), tokens_path(prefix).string()),
      index_file_(map_tokens(index_path(prefix))),
      token_file_(map_tokens(tokens_path(prefix))),
      index_(index_file_.bytes()),
      stream_(token_file_.bytes()) {
  open();
}

IndexedDataset::IndexedDataset(std::span<const std::byte> index, std::span<const std::byte> tokens,
                               const std::string& name)
    : PackedTokens(name, name + ".bin"), index_(index), stream_(tokens) {
  open();
}

void IndexedDataset::open() {
  check_header();
  check_arrays();
}

void IndexedDataset::check_header() {
  const std::string file = name() + ".idx";
  if (index_.empty()) refuse(file, "is empty", kTokenizeAgain);
  const std::size_t seen = std::min(index_.size(), kMagic.size());
  if (std::memcmp(index_.data(), kMagic.data(), seen) != 0) {
    refuse(file, "is not a Megatron index (it does not start with MMIDIDX)",
           "make token files with `trireme tokenize` or Megatron-LM's preprocess_data.py");
  }
  if (index_.size() < kIndexHeaderBytes) {
    refuse(file,
           say("is cut off: ", index_.size(), " bytes, but the header needs ", kIndexHeaderBytes),
           kTokenizeAgain);
  }
  const auto version = load<std::uint64_t>(index_.data() + 9);
  if (version != 1) refuse(file, say("has version ", version), "only version 1 can be read");
  const auto code = load<std::uint8_t>(index_.data() + 17);
  if (code == 6 || code == 7) {
    refuse(file, say("holds floating-point numbers (type code ", int{code}, "), not tokens"),
           "give a dataset of token ids");
  }
  if (!is_token_type(code)) {
    refuse(file, say("has the unknown type code ", int{code}),
           "known are 1 uint8, 2 int8, 3 int16, 4 int32, 5 int64, 8 uint16");
  }

  const auto sequences = load<std::uint64_t>(index_.data() + 18);
  const auto bounds = load<std::uint64_t>(index_.data() + 26);
  const std::uint64_t room = index_.size() - kIndexHeaderBytes;
  // Division instead of multiplication, so that forged counts cannot overflow.
  const bool fits = sequences <= room / 12 && bounds <= (room - 12 * sequences) / 8;
  if (!fits) {
    refuse(file,
           say("is cut off: ", index_.size(), " bytes cannot hold the ", sequences,
               " sequences and ", bounds, " document bounds in its header"),
           kTokenizeAgain);
  }
  const std::uint64_t left = room - 12 * sequences - 8 * bounds;
  if (left != 0 && left == sequences) {
    refuse(file, "is a multimodal dataset (it has a mode per sequence)", "give a dataset of text");
  }
  if (left != 0) {
    refuse(file, say("has ", left, " bytes more than its ", sequences, " sequences need"),
           kTokenizeAgain);
  }
  if (bounds == 0) refuse(file, "has no document bounds", kTokenizeAgain);
  set_tokens(stream_, stream_, static_cast<TokenType>(code));
  sequences_ = static_cast<std::int64_t>(sequences);
  documents_ = static_cast<std::int64_t>(bounds) - 1;
  lengths_ = index_.data() + kIndexHeaderBytes;
  pointers_ = lengths_ + 4 * sequences;
  documents_at_ = pointers_ + 8 * sequences;
}

void IndexedDataset::check_arrays() const {
  const std::string file = name() + ".idx";
  const auto size = static_cast<std::int64_t>(size_of(type()));
  const auto bytes = static_cast<std::int64_t>(stream_.size());
  std::int64_t end = 0;
  for (std::int64_t s = 0; s < sequences_; ++s) {
    const std::int64_t length = load<std::int32_t>(lengths_ + 4 * s);
    const auto pointer = load<std::int64_t>(pointers_ + 8 * s);
    if (length < 0) refuse(file, say("sequence ", s, " has the length ", length), kTokenizeAgain);
    if (pointer != end) {
      refuse(
          file,
          say("sequence ", s, " begins at byte ", pointer, ", but the previous one ends at ", end),
          "sequences must be contiguous; " + std::string(kTokenizeAgain));
    }
    if (length > (bytes - end) / size) {
      refuse(token_file(),
             say("is truncated: it has ", bytes, " bytes, and sequence ", s, " ends at byte ",
                 end + length * size),
             "copy the file again, or " + std::string(kTokenizeAgain));
    }
    end += length * size;
  }
  if (end != bytes) {
    refuse(token_file(),
           say("has ", bytes, " bytes, but its index describes ", end,
               " (the two files do not belong together)"),
           "copy both files again, or " + std::string(kTokenizeAgain));
  }
  std::int64_t before = 0;
  for (std::int64_t d = 0; d <= documents_; ++d) {
    const std::int64_t bound = document_first_sequence(d);
    if ((d == 0 && bound != 0) || bound < before || bound > sequences_) {
      refuse(
          file,
          say("document bound ", d, " is ", bound, "; bounds must ascend from 0 to ", sequences_),
          kTokenizeAgain);
    }
    before = bound;
  }
  if (before != sequences_) {
    refuse(file, say("the last document ends at sequence ", before, " of ", sequences_),
           kTokenizeAgain);
  }
}

std::int64_t IndexedDataset::sequence_begin(std::int64_t sequence) const {
  if (sequence == sequences_) return tokens();
  return load<std::int64_t>(pointers_ + 8 * sequence) / static_cast<std::int64_t>(size_of(type()));
}
std::int64_t IndexedDataset::document_first_sequence(std::int64_t document) const {
  return load<std::int64_t>(documents_at_ + 8 * document);
}
std::int64_t IndexedDataset::document_begin(std::int64_t document) const {
  return sequence_begin(document_first_sequence(document));
}

}  // namespace trireme::data
