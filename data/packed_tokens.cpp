#include "data/packed_tokens.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "model/base/error.h"

namespace trireme::data {

void refuse(const std::string& file, const std::string& fault, const std::string& fix) {
  throw DataError(say(file, ": ", fault, ": ", fix));
}

void PackedTokens::set_tokens(std::span<const std::byte> file, std::span<const std::byte> packed,
                              TokenType type) {
  if (packed.size() % size_of(type) != 0) {
    throw DataError(say(token_file(), ": has ", packed.size(), " bytes, not a whole number of ",
                        name_of(type), " tokens: copy or write the file again"));
  }
  file_ = file;
  packed_ = packed;
  type_ = type;
}

void PackedTokens::read(std::int64_t first, std::span<std::int32_t> into) const {
  const auto count = static_cast<std::int64_t>(into.size());
  require(first >= 0 && count <= tokens() && first <= tokens() - count, "tokens [", first, ", ",
          first + count, ") of ", tokens());
  with_token_type(type_, [&](auto zero) {
    using T = decltype(zero);
    const std::byte* from = packed_.data() + first * static_cast<std::int64_t>(sizeof(T));
    for (std::int64_t i = 0; i < count; ++i) {
      into[i] = static_cast<std::int32_t>(load<T>(from + i * static_cast<std::int64_t>(sizeof(T))));
    }
  });
}

std::int64_t PackedTokens::token(std::int64_t at) const {
  require(at >= 0 && at < tokens(), "token ", at, " of ", tokens());
  return with_token_type(type_, [&](auto zero) -> std::int64_t {
    using T = decltype(zero);
    return load<T>(packed_.data() + at * static_cast<std::int64_t>(sizeof(T)));
  });
}

std::optional<std::int64_t> PackedTokens::find_outside(std::int64_t vocab_size, std::int64_t first,
                                                       std::int64_t last) const {
  require(first >= 0 && first <= last && last <= tokens(), "tokens [", first, ", ", last, ") of ",
          tokens());
  return with_token_type(type_, [&](auto zero) -> std::optional<std::int64_t> {
    using T = decltype(zero);
    // As unsigned integers negative ids are the largest, so one maximum detects both.
    using U = std::make_unsigned_t<T>;
    constexpr std::int64_t kBlock = 1 << 14;
    const auto limit = static_cast<std::uint64_t>(std::max<std::int64_t>(vocab_size, 0));
    const auto too_big = [&](U id) {
      return std::uint64_t{id} >= limit || id > static_cast<U>(std::numeric_limits<T>::max());
    };
    for (std::int64_t at = first; at < last; at += kBlock) {
      const std::byte* from = packed_.data() + at * static_cast<std::int64_t>(sizeof(T));
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

MappedFile map_tokens(const std::filesystem::path& path) {
  std::error_code why;
  if (!std::filesystem::exists(path, why)) {
    throw DataError(say(
        path.string(),
        ": no such file; give the PREFIX of PREFIX.bin and PREFIX.idx (written by `trireme "
        "tokenize --output PREFIX`), or a shard of llm.c or LLM.Q (.bin) or of datatrove (.ds)"));
  }
  try {
    return MappedFile(path);
  } catch (const EnvironmentError& error) {
    throw DataError(error.what());
  }
}

std::uint64_t hash_of_samples(std::initializer_list<std::span<const std::byte>> parts) {
  constexpr std::size_t kBlock = 4096;
  constexpr std::size_t kBlocks = 64;
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(),
                                                                              XXH3_freeState);
  XXH3_64bits_reset(state.get());
  for (const auto bytes : parts) {
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
