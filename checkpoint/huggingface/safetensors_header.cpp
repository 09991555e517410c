#include "checkpoint/huggingface/safetensors_header.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "model/base/error.h"
#include "model/base/human.h"

namespace trireme::checkpoint::huggingface {
namespace {

constexpr std::size_t kMostDimensions = 64;
constexpr std::size_t kMostName = 4096;
constexpr std::size_t kAlignment = 8;

// Every dtype of the format, in bits per element.
constexpr std::array<std::pair<std::string_view, std::uint64_t>, 22> kBits{
    {{"F32", 32},        {"BF16", 16},       {"F16", 16}, {"F64", 64},    {"F8_E5M2", 8},
     {"F8_E4M3", 8},     {"F8_E8M0", 8},     {"F4", 4},   {"F6_E2M3", 6}, {"F6_E3M2", 6},
     {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I8", 8},   {"I16", 16},    {"I32", 32},
     {"I64", 64},        {"U8", 8},          {"U16", 16}, {"U32", 32},    {"U64", 64},
     {"BOOL", 8},        {"C64", 64}}};

constexpr std::array<std::pair<DType, const char*>, 5> kOurs{{{DType::kF32, "F32"},
                                                              {DType::kBf16, "BF16"},
                                                              {DType::kF16, "F16"},
                                                              {DType::kF64, "F64"},
                                                              {DType::kI32, "I32"}}};

std::optional<std::uint64_t> bits_of(std::string_view dtype) {
  for (const auto& [name, bits] : kBits) {
    if (name == dtype) return bits;
  }
  return std::nullopt;
}

// {"NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, "__metadata__": {...}}. A
// SAX parser, so that invalid text is rejected at the first error.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderReader(const std::string& from) : from_(from) {}

  std::vector<FileTensor> take() { return std::move(tensors_); }

  bool null() override { refuse_value(); }
  bool boolean(bool) override { refuse_value(); }
  bool number_integer(number_integer_t) override { refuse_value(); }
  bool number_float(number_float_t, const string_t&) override { refuse_value(); }
  bool binary(binary_t&) override { refuse_value(); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::kList) refuse_value();
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      refuse("a number too large");
    }
    if (list_.size() == kMostDimensions) refuse("a list too long");
    list_.push_back(value);
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::kMetadata) return true;
    if (place_ != Place::kTensor || key_ != "dtype") refuse_value();
    if (!bits_of(value)) refuse(say("dtype \"", printable(value), "\" is not part of the format"));
    tensor_.dtype = value;
    return true;
  }

  bool start_object(std::size_t) override {
    if (place_ == Place::kBefore) {
      place_ = Place::kTop;
    } else if (place_ == Place::kTop) {
      place_ = key_ == "__metadata__" ? Place::kMetadata : Place::kTensor;
      if (place_ == Place::kMetadata && std::exchange(has_metadata_, true)) refuse("appears twice");
      tensor_ = {.name = key_, .dtype = {}, .shape = {}};
      seen_ = 0;
    } else {
      refuse_value();
    }
    return true;
  }

  bool key(string_t& value) override {
    if (value.size() > kMostName) refuse(say("a name of ", value.size(), " bytes"));
    key_ = value;
    if (place_ != Place::kTensor) return true;
    const unsigned bit = key_ == "dtype" ? 1 : key_ == "shape" ? 2 : key_ == "data_offsets" ? 4 : 0;
    if (bit == 0) refuse(say("unknown key \"", printable(key_), "\""));
    if ((seen_ & bit) != 0) refuse(say("key \"", key_, "\" appears twice"));
    seen_ |= bit;
    return true;
  }

  bool end_object() override {
    if (place_ == Place::kTensor) {
      if (seen_ != 7) refuse("needs dtype, shape and data_offsets");
      check_size();
      tensors_.push_back(std::move(tensor_));
    }
    place_ = place_ == Place::kTop ? Place::kAfter : Place::kTop;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ != Place::kTensor || key_ == "dtype") refuse_value();
    place_ = Place::kList;
    list_.clear();
    return true;
  }

  bool end_array() override {
    place_ = Place::kTensor;
    if (key_ == "shape") {
      for (const std::uint64_t extent : list_) {
        tensor_.shape.push_back(static_cast<std::int64_t>(extent));
      }
      return true;
    }
    if (list_.size() != 2 || list_[0] > list_[1]) refuse("data_offsets must be [begin, end]");
    tensor_.begin = list_[0];
    tensor_.end = list_[1];
    return true;
  }

  bool parse_error(std::size_t at, const std::string&,
                   const nlohmann::detail::exception&) override {
    throw CheckpointError(say(from_, ": the header is not valid JSON at byte ", at));
  }

 private:
  enum class Place : std::uint8_t { kBefore, kTop, kMetadata, kTensor, kList, kAfter };

  [[noreturn]] void refuse(const std::string& why) const {
    const bool inside = place_ == Place::kTensor || place_ == Place::kList;
    throw CheckpointError(
        say(from_, ": header: \"", printable(inside ? tensor_.name : key_), "\": ", why));
  }
  [[noreturn]] void refuse_value() const { refuse("a value that the format does not allow here"); }

  void check_size() const {
    constexpr std::uint64_t kMost = std::uint64_t{1} << 60;
    std::uint64_t bits = *bits_of(tensor_.dtype);
    for (const std::int64_t extent : tensor_.shape) {
      if (extent != 0 && bits > kMost / static_cast<std::uint64_t>(extent)) refuse("too large");
      bits *= static_cast<std::uint64_t>(extent);
    }
    if (bits % 8 != 0 || bits / 8 != tensor_.end - tensor_.begin) {
      refuse("shape and data_offsets disagree");
    }
  }

  const std::string& from_;
  Place place_ = Place::kBefore;
  std::string key_;
  FileTensor tensor_;
  unsigned seen_ = 0;
  bool has_metadata_ = false;
  std::vector<std::uint64_t> list_;
  std::vector<FileTensor> tensors_;
};

void check_places(const std::vector<FileTensor>& tensors, std::uint64_t bytes,
                  const std::string& from) {
  std::uint64_t end = 0;
  for (const FileTensor& tensor : tensors) {
    if (tensor.begin != end) {
      throw CheckpointError(say(from, ": header: \"", printable(tensor.name), "\" begins at byte ",
                                tensor.begin, ", and what is before it ends at ", end));
    }
    end = tensor.end;
  }
  if (end == bytes) return;
  throw CheckpointError(say(from, ": the tensors have ", end, " bytes, the file has ", bytes,
                            " for them", bytes < end ? ": it is truncated" : ""));
}

void check_names(const std::vector<FileTensor>& tensors, const std::string& from) {
  std::vector<std::string_view> names;
  for (const FileTensor& tensor : tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return;
  throw CheckpointError(say(from, ": header: \"", printable(*twice), "\" appears twice"));
}

}  // namespace

std::vector<FileTensor> parse_header(std::string_view text, std::uint64_t bytes,
                                     const std::string& from) {
  if (!text.starts_with('{')) throw CheckpointError(say(from, ": the header is not a JSON object"));
  HeaderReader reader(from);
  nlohmann::json::sax_parse(text, &reader);
  std::vector<FileTensor> tensors = reader.take();
  std::sort(tensors.begin(), tensors.end(), [](const FileTensor& a, const FileTensor& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  check_places(tensors, bytes, from);
  check_names(tensors, from);
  return tensors;
}

std::string header_text(std::span<const NewTensor> tensors, DType dtype) {
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "pt"}};
  std::uint64_t at = 0;
  for (const NewTensor& tensor : tensors) {
    const std::uint64_t end = at + tensor.bytes(dtype);
    std::vector<std::int64_t> shape;
    for (int dim = 0; dim < tensor.shape.rank(); ++dim) shape.push_back(tensor.shape[dim]);
    header[tensor.name] = {{"dtype", file_dtype(tensor.dtype.value_or(dtype))},
                           {"shape", shape},
                           {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  require(text.size() <= kMostHeader, "a safetensors header of ", text.size(), " bytes");
  std::string length(kLengthBytes, '\0');
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    length[i] = static_cast<char>(text.size() >> (8 * i) & 0xffu);
  }
  return length + text;
}

std::optional<DType> dtype_of_file(std::string_view name) {
  for (const auto& [dtype, word] : kOurs) {
    if (word == name) return dtype;
  }
  return std::nullopt;
}

const char* file_dtype(DType dtype) {
  return std::find_if(kOurs.begin(), kOurs.end(),
                      [dtype](const auto& entry) { return entry.first == dtype; })
      ->second;
}

}  // namespace trireme::checkpoint::huggingface
