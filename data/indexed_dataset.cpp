#include "data/indexed_dataset.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <string_view>
#include <utility>

#include "model/base/error.h"

namespace trireme::data {
namespace {

constexpr std::string_view kMagic{"MMIDIDX\0\0", 9};
constexpr std::size_t kHeaderBytes = 34;

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

[[noreturn]] void refuse(const std::string& file, const std::string& fault,
                         const std::string& fix) {
  throw DataError(say(file, ": ", fault, ": ", fix));
}

MappedFile map_or_refuse(const std::filesystem::path& path) {
  std::error_code why;
  if (!std::filesystem::exists(path, why)) {
    refuse(path.string(), "there is no such file",
           "give the prefix PREFIX of a PREFIX.bin and PREFIX.idx pair; `trireme tokenize "
           "--output PREFIX` makes one");
  }
  try {
    return MappedFile(path);
  } catch (const EnvironmentError& error) {
    throw DataError(error.what());
  }
}

constexpr const char* kAgain = "write the pair again with `trireme tokenize`";

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
    : index_file_(map_or_refuse(index_path(prefix))),
      token_file_(map_or_refuse(tokens_path(prefix))),
      index_(index_file_.bytes()),
      stream_(token_file_.bytes()),
      name_(prefix.string()) {
  open();
}

IndexedDataset::IndexedDataset(std::span<const std::byte> index, std::span<const std::byte> tokens,
                               std::string name)
    : index_(index), stream_(tokens), name_(std::move(name)) {
  open();
}

void IndexedDataset::open() {
  check_header();
  check_arrays();
}

void IndexedDataset::check_header() {
  const std::string file = name_ + ".idx";
  if (index_.empty()) refuse(file, "is empty", kAgain);
  const std::size_t seen = std::min(index_.size(), kMagic.size());
  if (std::memcmp(index_.data(), kMagic.data(), seen) != 0) {
    refuse(file, "is not a Megatron index (it does not start with MMIDIDX)",
           "make token files with `trireme tokenize` or Megatron-LM's preprocess_data.py");
  }
  if (index_.size() < kHeaderBytes) {
    refuse(file, say("is cut off: ", index_.size(), " bytes, the header alone has ", kHeaderBytes),
           kAgain);
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
  type_ = static_cast<TokenType>(code);

  const auto sequences = load<std::uint64_t>(index_.data() + 18);
  const auto bounds = load<std::uint64_t>(index_.data() + 26);
  const std::uint64_t room = index_.size() - kHeaderBytes;
  // Dividing instead of multiplying: a forged count must not overflow its way in.
  const bool fits = sequences <= room / 12 && bounds <= (room - 12 * sequences) / 8;
  if (!fits) {
    refuse(file,
           say("is cut off: ", index_.size(), " bytes cannot hold the ", sequences,
               " sequences and ", bounds, " document bounds it announces"),
           kAgain);
  }
  const std::uint64_t left = room - 12 * sequences - 8 * bounds;
  if (left != 0 && left == sequences) {
    refuse(file, "has a mode per sequence (a multimodal dataset)", "give a dataset of text");
  }
  if (left != 0) {
    refuse(file, say("has ", left, " bytes more than its ", sequences, " sequences need"), kAgain);
  }
  if (bounds == 0) refuse(file, "has no document bounds", kAgain);
  if (stream_.size() % size_of(type_) != 0) {
    refuse(name_ + ".bin",
           say("has ", stream_.size(), " bytes, not a whole number of ", name_of(type_), " tokens"),
           kAgain);
  }
  sequences_ = static_cast<std::int64_t>(sequences);
  documents_ = static_cast<std::int64_t>(bounds) - 1;
  tokens_ = static_cast<std::int64_t>(stream_.size() / size_of(type_));
  lengths_ = index_.data() + kHeaderBytes;
  pointers_ = lengths_ + 4 * sequences;
  documents_at_ = pointers_ + 8 * sequences;
}

void IndexedDataset::check_arrays() const {
  const std::string file = name_ + ".idx";
  const auto size = static_cast<std::int64_t>(size_of(type_));
  const auto bytes = static_cast<std::int64_t>(stream_.size());
  std::int64_t end = 0;
  for (std::int64_t s = 0; s < sequences_; ++s) {
    const std::int64_t length = sequence_size(s);
    const auto pointer = load<std::int64_t>(pointers_ + 8 * s);
    if (length < 0) refuse(file, say("sequence ", s, " has the length ", length), kAgain);
    if (pointer != end) {
      refuse(
          file,
          say("sequence ", s, " begins at byte ", pointer, ", but the one before it ends at ", end),
          "sequences must lie end to end; " + std::string(kAgain));
    }
    if (length > (bytes - end) / size) {
      refuse(name_ + ".bin",
             say("is cut off: it has ", bytes, " bytes, and sequence ", s, " goes on to byte ",
                 end + length * size),
             "copy the file again, or " + std::string(kAgain));
    }
    end += length * size;
  }
  if (end != bytes) {
    refuse(name_ + ".bin",
           say("has ", bytes, " bytes, but its index describes ", end,
               " (the two files do not belong together)"),
           "copy both files again, or " + std::string(kAgain));
  }
  std::int64_t before = 0;
  for (std::int64_t d = 0; d <= documents_; ++d) {
    const std::int64_t bound = document_first_sequence(d);
    if ((d == 0 && bound != 0) || bound < before || bound > sequences_) {
      refuse(file,
             say("document bound ", d, " is ", bound, "; bounds must climb from 0 to ", sequences_),
             kAgain);
    }
    before = bound;
  }
  if (before != sequences_) {
    refuse(file, say("the last document ends at sequence ", before, " of ", sequences_), kAgain);
  }
}

std::int64_t IndexedDataset::sequence_begin(std::int64_t sequence) const {
  if (sequence == sequences_) return tokens_;
  return load<std::int64_t>(pointers_ + 8 * sequence) / static_cast<std::int64_t>(size_of(type_));
}
std::int64_t IndexedDataset::sequence_size(std::int64_t sequence) const {
  return load<std::int32_t>(lengths_ + 4 * sequence);
}
std::int64_t IndexedDataset::document_first_sequence(std::int64_t document) const {
  return load<std::int64_t>(documents_at_ + 8 * document);
}
std::int64_t IndexedDataset::document_begin(std::int64_t document) const {
  return sequence_begin(document_first_sequence(document));
}
std::int64_t IndexedDataset::document_size(std::int64_t document) const {
  return document_begin(document + 1) - document_begin(document);
}

std::int64_t IndexedDataset::document_at(std::int64_t token) const {
  require(token >= 0 && token < tokens_, "token ", token, " of ", tokens_);
  // The last document that begins at or before the token: of several that begin
  // there, all but the last are empty.
  std::int64_t low = 0;
  std::int64_t high = documents_ - 1;
  while (low < high) {
    const std::int64_t middle = low + (high - low + 1) / 2;
    if (document_begin(middle) <= token) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

void IndexedDataset::read(std::int64_t first, std::span<std::int32_t> into) const {
  const auto count = static_cast<std::int64_t>(into.size());
  require(first >= 0 && count <= tokens_ && first <= tokens_ - count, "tokens [", first, ", ",
          first + count, ") of ", tokens_);
  with_token_type(type_, [&](auto zero) {
    using T = decltype(zero);
    const std::byte* from = stream_.data() + first * static_cast<std::int64_t>(sizeof(T));
    for (std::int64_t i = 0; i < count; ++i) {
      into[i] = static_cast<std::int32_t>(load<T>(from + i * static_cast<std::int64_t>(sizeof(T))));
    }
  });
}

std::int64_t IndexedDataset::token(std::int64_t at) const {
  require(at >= 0 && at < tokens_, "token ", at, " of ", tokens_);
  return with_token_type(type_, [&](auto zero) -> std::int64_t {
    using T = decltype(zero);
    return load<T>(stream_.data() + at * static_cast<std::int64_t>(sizeof(T)));
  });
}

std::optional<std::int64_t> IndexedDataset::find_outside(std::int64_t vocab_size,
                                                         std::int64_t first,
                                                         std::int64_t last) const {
  require(first >= 0 && first <= last && last <= tokens_, "tokens [", first, ", ", last, ") of ",
          tokens_);
  return with_token_type(type_, [&](auto zero) -> std::optional<std::int64_t> {
    using T = decltype(zero);
    // As unsigned numbers, negative ids are the largest: one maximum finds both.
    using U = std::make_unsigned_t<T>;
    constexpr std::int64_t kBlock = 1 << 14;
    const auto limit = static_cast<std::uint64_t>(std::max<std::int64_t>(vocab_size, 0));
    const auto too_big = [&](U id) {
      return std::uint64_t{id} >= limit || id > static_cast<U>(std::numeric_limits<T>::max());
    };
    for (std::int64_t at = first; at < last; at += kBlock) {
      const std::byte* from = stream_.data() + at * static_cast<std::int64_t>(sizeof(T));
      const std::int64_t count = std::min(kBlock, last - at);
      U highest = 0;
      for (std::int64_t i = 0; i < count; ++i) {
        highest = std::max(highest, load<U>(from + i * static_cast<std::int64_t>(sizeof(T))));
      }
      if (!too_big(highest)) continue;
      for (std::int64_t i = 0; i < count; ++i) {
        if (too_big(load<U>(from + i * static_cast<std::int64_t>(sizeof(T))))) return at + i;
      }
    }
    return std::nullopt;
  });
}

void IndexedDataset::check_ids(std::int64_t vocab_size, std::int64_t first,
                               std::int64_t last) const {
  const auto at = find_outside(vocab_size, first, last);
  if (!at) return;
  const std::int64_t document = document_at(*at);
  refuse(name_ + ".bin",
         say("document ", document, ", token ", *at - document_begin(document), " has the id ",
             token(*at), ", but the model's vocab_size is ", vocab_size),
         say("set model.vocab_size to at least the tokenizer's, or tokenize with the model's "
             "tokenizer"));
}

std::uint64_t IndexedDataset::sampled_hash() const {
  constexpr std::size_t kBlock = 4096;
  constexpr std::size_t kBlocks = 64;
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(),
                                                                              XXH3_freeState);
  XXH3_64bits_reset(state.get());
  for (const auto bytes : {index_, stream_}) {
    const std::uint64_t size = bytes.size();
    XXH3_64bits_update(state.get(), &size, sizeof size);
    if (size <= kBlock * kBlocks) {
      XXH3_64bits_update(state.get(), bytes.data(), size);
      continue;
    }
    const std::size_t stride = (size - kBlock) / (kBlocks - 1);
    for (std::size_t i = 0; i < kBlocks; ++i) {
      XXH3_64bits_update(state.get(), bytes.data() + i * stride, kBlock);
    }
  }
  return XXH3_64bits_digest(state.get());
}

}  // namespace trireme::data
