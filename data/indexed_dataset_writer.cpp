#include "data/indexed_dataset_writer.h"

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "data/indexed_dataset.h"
#include "model/base/error.h"

namespace trireme::data {
namespace {

constexpr std::size_t kBufferBytes = 4u << 20;
// Sequence lengths are int32 in the file; longer documents are split into several sequences.
constexpr std::int64_t kLongestSequence = std::numeric_limits<std::int32_t>::max();

std::filesystem::path temporary_beside(const std::filesystem::path& path) {
  return path.string() + ".partial";
}

// Opened for appending and locked: two writers of one file would interleave their tokens.
File take_for_appending(const std::filesystem::path& path) {
  File file = File::open_append(path);
  if (::flock(file.descriptor(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    throw EnvironmentError(say(path.string(), ": another process is writing it"));
  }
  // The holder of the lock may have renamed the file after it was opened.
  struct stat ours {};
  struct stat named {};
  if (::fstat(file.descriptor(), &ours) != 0 || ::stat(path.c_str(), &named) != 0 ||
      ours.st_ino != named.st_ino) {
    throw EnvironmentError(say(path.string(), ": another process has just written it"));
  }
  return file;
}

void cut_to(File& file, std::uint64_t size) {
  if (file.size() < size || ::ftruncate(file.descriptor(), static_cast<off_t>(size)) != 0) {
    throw EnvironmentError(
        say(file.path().string(), ": no longer has the ", size, " bytes it had"));
  }
}

void rename_or_throw(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return;
  throw EnvironmentError(
      say("cannot rename ", from.string(), " to ", to.string(), ": ", std::strerror(errno)));
}

// Buffers small values into large writes.
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

IndexedDatasetWriter::IndexedDatasetWriter(std::filesystem::path prefix, TokenType type,
                                           const SavedTokens& from)
    : prefix_(std::move(prefix)), type_(type) {
  if (prefix_.has_parent_path()) make_folders(prefix_.parent_path());
  temporary_ = temporary_beside(tokens_path(prefix_));
  temporary_index_ = temporary_beside(index_path(prefix_));
  new_index_ = index_path(prefix_).string() + ".new";
  File file = take_for_appending(temporary_);
  cut_to(file, static_cast<std::uint64_t>(from.tokens) * size_of(type_));
  if (from.tokens > 0 || from.index_bytes > 0) {
    take_up(from);
  } else {
    ::unlink(temporary_index_.c_str());
  }
  file_ = std::move(file);
  buffer_.reserve(kBufferBytes);
}

IndexedDatasetWriter::~IndexedDatasetWriter() {
  if (!file_) return;
  ::unlink(temporary_.c_str());
  ::unlink(temporary_index_.c_str());
  ::unlink(new_index_.c_str());
}

void IndexedDatasetWriter::take_up(const SavedTokens& from) {
  saved_index_ = File::open_append(temporary_index_);
  cut_to(*saved_index_, from.index_bytes);
  const std::string bytes = read_text(temporary_index_, from.index_bytes);
  std::vector<std::uint32_t> numbers(bytes.size() / sizeof(std::uint32_t));
  std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(std::uint32_t));
  for (std::size_t at = 0; at < numbers.size();) {
    const std::uint32_t count = numbers[at++];
    sequences_of_.push_back(count);
    for (std::uint32_t i = 0; i < count && at < numbers.size(); ++i) {
      lengths_.push_back(static_cast<std::int32_t>(numbers[at++]));
    }
  }
  tokens_ = from.tokens;
  open_tokens_ = from.open_tokens;
  highest_ = from.highest_id;
  index_bytes_ = from.index_bytes;
  saved_documents_ = sequences_of_.size();
  saved_sequences_ = lengths_.size();
  if (documents() != from.documents) {
    throw EnvironmentError(say(temporary_index_.string(), ": has not the documents it had"));
  }
}

std::optional<SavedTokens> IndexedDatasetWriter::save() {
  if (open_sequences_ > 0) return std::nullopt;
  flush();
  file_->sync();
  std::vector<std::uint32_t> numbers;
  for (; saved_documents_ < sequences_of_.size(); ++saved_documents_) {
    const std::uint32_t count = sequences_of_[saved_documents_];
    numbers.push_back(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      numbers.push_back(static_cast<std::uint32_t>(lengths_[saved_sequences_++]));
    }
  }
  if (!saved_index_) saved_index_ = File::open_append(temporary_index_);
  saved_index_->write_all(std::as_bytes(std::span(numbers)));
  saved_index_->sync();
  index_bytes_ += numbers.size() * sizeof(std::uint32_t);
  return SavedTokens{.tokens = tokens_,
                     .open_tokens = open_tokens_,
                     .documents = documents(),
                     .highest_id = highest_,
                     .index_bytes = index_bytes_};
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
  const std::filesystem::path index = index_path(prefix_);
  File file = File::create(new_index_);
  write_index(file);
  file.sync();
  file.close();
  // Between the renames the old index would describe the new tokens.
  ::unlink(index.c_str());
  ::unlink(sidecar_path(prefix_).c_str());
  rename_or_throw(temporary_, tokens_path(prefix_));
  rename_or_throw(new_index_, index);
  ::unlink(temporary_index_.c_str());
  file_->close();
  file_.reset();
  sync_folder(prefix_.has_parent_path() ? prefix_.parent_path() : ".");
}

}  // namespace trireme::data
