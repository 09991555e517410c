#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <cstring>
#include <fstream>

#include "checkpoint/huggingface/model_folder.h"
#include "checkpoint/huggingface/safetensors_writer.h"
#include "tests/checkpoint/state.h"

namespace trireme::checkpoint::huggingface {
namespace {

// The message of the error, or the tensors' names.
std::string outcome(const std::string& header, std::uint64_t bytes) {
  try {
    std::string names;
    for (const FileTensor& tensor : parse_header(header, bytes, "x")) names += tensor.name + " ";
    return names;
  } catch (const CheckpointError& error) {
    return error.what();
  }
}

void expect_refused(const std::string& header, std::uint64_t bytes, const std::string& word) {
  EXPECT_NE(outcome(header, bytes).find(word), std::string::npos) << outcome(header, bytes);
}

constexpr const char* kTwo =
    R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,2],"data_offsets":[24,32]},)"
    R"("a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}   )";

TEST(Safetensors, a_header_is_read_in_the_order_of_the_bytes) {
  EXPECT_EQ(outcome(kTwo, 32), "a b ");
  EXPECT_EQ(outcome("{}", 0), "");
  EXPECT_EQ(outcome(R"({"s":{"dtype":"F64","shape":[],"data_offsets":[0,8]}})", 8), "s ");
  EXPECT_EQ(outcome(R"({"e":{"dtype":"F32","shape":[0,7],"data_offsets":[0,0]}})", 0), "e ");
  EXPECT_EQ(outcome(R"({"e":{"dtype":"F4","shape":[6],"data_offsets":[0,3]}})", 3), "e ");
}

TEST(Safetensors, a_header_against_the_format_is_refused) {
  expect_refused(kTwo, 31, "truncated");
  expect_refused(kTwo, 33, "has 33 for them");
  expect_refused(" {}", 0, "not a JSON object");
  expect_refused("[]", 0, "not a JSON object");
  expect_refused("{} x", 0, "not valid JSON at byte");
  expect_refused("{\"\xff\": 1}", 0, "not valid JSON at byte");
  const auto one = [](const std::string& parts) { return "{\"a\":{" + parts + "}}"; };
  const std::string size = R"("shape":[1],"data_offsets":[0,4])";
  expect_refused(one(size), 4, "needs dtype");
  expect_refused(one(R"("dtype":"F32",)" + size + R"(,"more":[1])"), 4, "unknown key \"more\"");
  expect_refused(one(R"("dtype":"F32","dtype":"F32",)" + size), 4, "twice");
  expect_refused(one(R"("dtype":"F33",)" + size), 4, "dtype \"F33\"");
  expect_refused(one(R"("dtype":7,)" + size), 4, "a value that the format does not allow");
  expect_refused(one(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])"), 4,
                 "a value that the format does not allow");
  expect_refused(one(R"("dtype":"F32","shape":[1.5],"data_offsets":[0,4])"), 4,
                 "a value that the format does not allow");
  expect_refused(one(R"("dtype":"F32","shape":[[1]],"data_offsets":[0,4])"), 4,
                 "a value that the format does not allow");
  expect_refused(one(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), 4, "disagree");
  expect_refused(one(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])"), 4, "[begin, end]");
  expect_refused(one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4,4])"), 4, "[begin, end]");
  expect_refused(one(R"("dtype":"F4","shape":[1],"data_offsets":[0,0])"), 0, "disagree");
  const std::string million = "4611686018427387904";
  expect_refused(
      one("\"dtype\":\"F32\",\"shape\":[" + million + "," + million + "],\"data_offsets\":[0,4]"),
      4, "too large");
  expect_refused(
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],)"
      R"("data_offsets":[4,8]}})",
      8, "twice");
  expect_refused(
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],)"
      R"("data_offsets":[5,9]}})",
      9, "begins at byte 5");
}

// A file's first eight bytes and what follows them.
std::filesystem::path file_of(const Scratch& scratch, std::uint64_t length,
                              const std::string& rest) {
  const auto path = scratch.path() / "model.safetensors";
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(&length), 8) << rest;
  return path;
}

TEST(Safetensors, a_hostile_length_is_refused_before_memory_is_taken) {
  const Scratch scratch;
  rusage before{};
  ::getrusage(RUSAGE_SELF, &before);
  for (const std::uint64_t length : {std::uint64_t{3}, kMostHeader, kMostHeader + 1,
                                     std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    EXPECT_THROW(SafetensorsFile(file_of(scratch, length, "{}")), CheckpointError) << length;
  }
  std::ofstream(scratch.path() / "model.safetensors") << "short";
  EXPECT_THROW(SafetensorsFile(scratch.path() / "model.safetensors"), CheckpointError);
  rusage after{};
  ::getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 8 << 10) << "KiB";
}

void write_file(const std::filesystem::path& path, const std::string& name, DType dtype,
                const std::vector<std::byte>& bytes, Shape shape) {
  const NewTensor tensor{name, shape};
  SafetensorsWriter writer(path, {&tensor, 1}, dtype);
  writer.append(bytes);
  writer.finish();
}

template <class T>
std::vector<std::byte> bytes_of(std::initializer_list<float> values) {
  std::vector<T> stored(values.begin(), values.end());
  std::vector<std::byte> bytes(stored.size() * sizeof(T));
  std::memcpy(bytes.data(), stored.data(), bytes.size());
  return bytes;
}

TEST(Safetensors, what_is_written_reads_back_in_every_dtype) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBf16, DType::kF16}) {
    const Scratch scratch;
    const std::initializer_list<float> values{1, -2.5, 0.125, 96, 0, -3};
    const auto bytes = dtype == DType::kF32    ? bytes_of<float>(values)
                       : dtype == DType::kF64  ? bytes_of<double>(values)
                       : dtype == DType::kBf16 ? bytes_of<Bf16>(values)
                                               : bytes_of<F16>(values);
    write_file(scratch.path() / ModelFolder::kSingle, "w", dtype, bytes, {2, 3});
    const ModelFolder folder(scratch.path());
    const SourceTensor tensor = folder.find("w");
    EXPECT_EQ(tensor.shape, (Shape{2, 3}));
    std::vector<float> some(4);
    folder.read(tensor, 1, some);
    EXPECT_EQ(some, (std::vector<float>{-2.5, 0.125, 96, 0})) << name_of(dtype);
    EXPECT_THROW(folder.find("v"), CheckpointError);
  }
}

TEST(Safetensors, an_index_must_say_what_its_shards_hold) {
  const Scratch scratch;
  const auto bytes = bytes_of<float>({1, 2});
  write_file(scratch.path() / "one.safetensors", "a", DType::kF32, bytes, {2});
  write_file(scratch.path() / "two.safetensors", "b", DType::kF32, bytes, {2});
  const auto open_with = [&](const std::string& map) {
    std::ofstream(scratch.path() / ModelFolder::kIndex)
        << "{\"metadata\":{\"total_size\":16},\"weight_map\":" << map << "}";
    try {
      return std::to_string(ModelFolder(scratch.path()).names().size());
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  const auto says = [&](const std::string& map, const std::string& word) {
    EXPECT_NE(open_with(map).find(word), std::string::npos) << open_with(map);
  };
  EXPECT_EQ(open_with(R"({"a":"one.safetensors","b":"two.safetensors"})"), "2");
  says(R"({"a":"two.safetensors","b":"two.safetensors"})", "a is not in two.safetensors");
  says(R"({"c":"one.safetensors"})", "c is not in one.safetensors");
  says(R"({"a":"../one.safetensors"})", "in the same folder");
  says(R"({"a":"/etc/one.safetensors"})", "in the same folder");
  says(R"({"a":"one.bin"})", "*.safetensors");
  says(R"({"a":"three.safetensors"})", "three.safetensors");
  says(R"({"a":1})", "weight_map.a: a string is expected, found 1");
  says("{}", "names no file");
  says("[]", "an object is expected");
  const std::array<NewTensor, 2> two{{{"a", {2}}, {"c", {2}}}};
  SafetensorsWriter again(scratch.path() / "again.safetensors", two, DType::kF32);
  again.append(bytes);
  again.append(bytes);
  again.finish();
  says(R"({"a":"one.safetensors","c":"again.safetensors"})", "a is also in again");
}

}  // namespace
}  // namespace trireme::checkpoint::huggingface
