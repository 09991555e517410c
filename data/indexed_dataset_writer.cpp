#include "data/indexed_dataset_writer.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include "data/indexed_dataset.h"
#include "model/base/error.h"

namespace trireme::data {
namespace {

constexpr std::size_t kBufferBytes = 4u << 20;
// A sequence's length is an int32 in the file; longer documents go on in another.
constexpr std::int64_t kLongestSequence = std::numeric_limits<std::int32_t>::max();

std::filesystem::path temporary_beside(const std::filesystem::path& path) {
  return path.string() + say(".partial-", ::getpid());
}

void rename_or_throw(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return;
  throw EnvironmentError(
      say("cannot rename ", from.string(), " to ", to.string(), ": ", std::strerror(errno)));
}

// Collects small values into large writes.
class Spool {
 public:
  explicit Spool(File& file) : file_(file) { buffer_.reserve(kBufferBytes); }
  template <class T>
  void put(T value) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    buffer_.insert(buffer_.end(), bytes, bytes + sizeof value);
    if (buffer_.size() >= kBufferBytes - sizeof value) flush();
  }
  void flush() {
    file_.write_all(buffer_);
    buffer_.clear();
  }

 private:
  File& file_;
  std::vector<std::byte> buffer_;
};

}  // namespace

IndexedDatasetWriter::IndexedDatasetWriter(std::filesystem::path prefix, TokenType type)
    : prefix_(std::move(prefix)), type_(type) {
  if (prefix_.has_parent_path()) make_folders(prefix_.parent_path());
  temporary_ = temporary_beside(tokens_path(prefix_));
  file_ = File::create(temporary_);
  buffer_.reserve(kBufferBytes);
}

IndexedDatasetWriter::~IndexedDatasetWriter() {
  if (file_) ::unlink(temporary_.c_str());
}

void IndexedDatasetWriter::append(std::span<const std::int32_t> ids) {
  with_token_type(type_, [&](auto zero) {
    using T = decltype(zero);
    const std::size_t begin = buffer_.size();
    buffer_.resize(begin + ids.size() * sizeof(T));
    std::byte* to = buffer_.data() + begin;
    std::int32_t lowest = 0;
    std::int32_t highest = -1;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      lowest = std::min(lowest, ids[i]);
      highest = std::max(highest, ids[i]);
      const T id = static_cast<T>(ids[i]);
      std::memcpy(to + i * sizeof(T), &id, sizeof id);
    }
    if (lowest < 0 ||
        std::int64_t{highest} > static_cast<std::int64_t>(std::numeric_limits<T>::max())) {
      throw DataError(say(prefix_.string(), ".bin: the id ", lowest < 0 ? lowest : highest,
                          " does not fit ", name_of(type_)));
    }
    highest_ = std::max<std::int64_t>(highest_, highest);
  });
  tokens_ += static_cast<std::int64_t>(ids.size());
  open_tokens_ += static_cast<std::int64_t>(ids.size());
  while (open_tokens_ > kLongestSequence) {
    open_tokens_ -= kLongestSequence;
    lengths_.push_back(static_cast<std::int32_t>(kLongestSequence));
    ++open_sequences_;
  }
  if (buffer_.size() >= kBufferBytes) flush();
}

void IndexedDatasetWriter::end_sequence() {
  if (open_tokens_ == 0) return;
  lengths_.push_back(static_cast<std::int32_t>(open_tokens_));
  ++open_sequences_;
  open_tokens_ = 0;
}

void IndexedDatasetWriter::end_document() {
  end_sequence();
  sequences_of_.push_back(open_sequences_);
  open_sequences_ = 0;
}

void IndexedDatasetWriter::flush() {
  file_->write_all(buffer_);
  buffer_.clear();
}

void IndexedDatasetWriter::write_index(File& file) const {
  file.write_all(std::string_view{"MMIDIDX\0\0", 9});
  Spool spool(file);
  spool.put(std::uint64_t{1});
  spool.put(static_cast<std::uint8_t>(type_));
  spool.put(static_cast<std::uint64_t>(lengths_.size()));
  spool.put(static_cast<std::uint64_t>(sequences_of_.size() + 1));
  for (const std::int32_t length : lengths_) spool.put(length);
  std::int64_t pointer = 0;
  for (const std::int32_t length : lengths_) {
    spool.put(pointer);
    pointer += std::int64_t{length} * static_cast<std::int64_t>(size_of(type_));
  }
  std::int64_t bound = 0;
  spool.put(bound);
  for (const std::uint32_t sequences : sequences_of_) spool.put(bound += sequences);
  spool.flush();
}

void IndexedDatasetWriter::finish() {
  require(open_tokens_ == 0 && open_sequences_ == 0, "the last document is still open");
  flush();
  file_->sync();
  file_->close();
  const std::filesystem::path index = index_path(prefix_);
  const std::filesystem::path temporary_index = temporary_beside(index);
  try {
    File file = File::create(temporary_index);
    write_index(file);
    file.sync();
    file.close();
    // Between the renames an older index would describe the newer tokens.
    ::unlink(index.c_str());
    ::unlink(sidecar_path(prefix_).c_str());
    rename_or_throw(temporary_, tokens_path(prefix_));
    rename_or_throw(temporary_index, index);
  } catch (...) {
    ::unlink(temporary_index.c_str());
    throw;
  }
  file_.reset();
  sync_folder(prefix_.has_parent_path() ? prefix_.parent_path() : ".");
}

}  // namespace trireme::data
