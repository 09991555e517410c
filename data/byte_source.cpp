#include "data/byte_source.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/base/file.h"

namespace trireme::data {
namespace {

constexpr std::size_t kChunk = 256u << 10;

class PlainSource : public ByteSource {
 public:
  explicit PlainSource(const std::filesystem::path& path)
      : file_(File::open_read(path)), size_(file_.size()) {}
  std::size_t read(std::span<char> into) override {
    const auto count =
        static_cast<std::size_t>(std::min<std::uint64_t>(into.size(), size_ - offset_));
    file_.read_at(offset_, std::as_writable_bytes(into.first(count)));
    offset_ += count;
    return count;
  }
  std::uint64_t file_bytes_read() const override { return offset_; }

 private:
  File file_;
  std::uint64_t size_, offset_ = 0;
};

// Common part of gzip and zstd: reads compressed chunks and handles concatenated members.
class CompressedSource : public ByteSource {
 public:
  explicit CompressedSource(const std::filesystem::path& path) : plain_(path), path_(path) {}
  std::size_t read(std::span<char> into) override {
    std::size_t made = 0;
    while (made < into.size()) {
      if (chunk_.empty()) {
        buffer_.resize(kChunk);
        chunk_ = std::span(buffer_).first(plain_.read(buffer_));
        if (chunk_.empty() && !between_members_ && !may_hold_more_) wrong("is cut off");
        if (chunk_.empty() && between_members_) break;
      }
      const std::size_t before = made;
      const std::size_t chunk_before = chunk_.size();
      made += decompress(chunk_, into.subspan(made), between_members_);
      // A full output buffer may hide more output.
      may_hold_more_ = made == into.size();
      const bool stuck = made == before && chunk_.size() == chunk_before;
      if (stuck && !between_members_) wrong("is cut off");
    }
    return made;
  }
  std::uint64_t file_bytes_read() const override {
    return plain_.file_bytes_read() - chunk_.size();
  }

 protected:
  // Consumes the front of `from` and returns the number of bytes produced; sets `ended` at the end
  // of a member.
  virtual std::size_t decompress(std::span<char>& from, std::span<char> into, bool& ended) = 0;
  [[noreturn]] void wrong(const std::string& what) const {
    throw DataError(say(path_.string(), ": ", what, "; its compressed data cannot be read"));
  }

 private:
  PlainSource plain_;
  std::filesystem::path path_;
  std::vector<char> buffer_;
  std::span<char> chunk_;
  bool between_members_ = false, may_hold_more_ = false;
};

class GzipSource : public CompressedSource {
 public:
  explicit GzipSource(const std::filesystem::path& path) : CompressedSource(path) {
    constexpr int kGzipOnly = 16;
    require(inflateInit2(&stream_, MAX_WBITS + kGzipOnly) == Z_OK, "zlib cannot start");
  }
  ~GzipSource() override { inflateEnd(&stream_); }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

 private:
  std::size_t decompress(std::span<char>& from, std::span<char> into, bool& ended) override {
    if (ended) inflateReset(&stream_);
    stream_.next_in = reinterpret_cast<Bytef*>(from.data());
    stream_.avail_in = static_cast<uInt>(from.size());
    stream_.next_out = reinterpret_cast<Bytef*>(into.data());
    stream_.avail_out = static_cast<uInt>(std::min<std::size_t>(into.size(), 1u << 30));
    const uInt room = stream_.avail_out;
    const int result = inflate(&stream_, Z_NO_FLUSH);
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
      wrong(say("is damaged (", stream_.msg != nullptr ? stream_.msg : "zlib", ")"));
    }
    ended = result == Z_STREAM_END;
    from = from.last(stream_.avail_in);
    return room - stream_.avail_out;
  }

  z_stream stream_{};
};

class ZstdSource : public CompressedSource {
 public:
  explicit ZstdSource(const std::filesystem::path& path)
      : CompressedSource(path), stream_(ZSTD_createDStream()) {
    require(stream_ != nullptr, "zstd cannot start");
  }

 private:
  struct Free {
    void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
  };
  std::size_t decompress(std::span<char>& from, std::span<char> into, bool& ended) override {
    ZSTD_inBuffer in{from.data(), from.size(), 0};
    ZSTD_outBuffer out{into.data(), into.size(), 0};
    const std::size_t left = ZSTD_decompressStream(stream_.get(), &out, &in);
    if (ZSTD_isError(left) != 0) wrong(say("is damaged (", ZSTD_getErrorName(left), ")"));
    ended = left == 0;
    from = from.subspan(in.pos);
    return out.pos;
  }

  std::unique_ptr<ZSTD_DStream, Free> stream_;
};

}  // namespace

std::unique_ptr<ByteSource> open_source(const InputFile& file) {
  switch (file.compression) {
    case InputFile::Compression::kGzip:
      return std::make_unique<GzipSource>(file.path);
    case InputFile::Compression::kZstd:
      return std::make_unique<ZstdSource>(file.path);
    case InputFile::Compression::kNone:
      break;
  }
  return std::make_unique<PlainSource>(file.path);
}

}  // namespace trireme::data
