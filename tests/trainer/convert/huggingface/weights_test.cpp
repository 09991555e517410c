#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "checkpoint/huggingface/safetensors_writer.h"
#include "checkpoint/store/saver.h"
#include "model/base/error.h"
#include "tests/checkpoint/state.h"
#include "tests/tiny_model.h"
#include "trainer/convert/huggingface/config_json.h"
#include "trainer/convert/huggingface/weight_export.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using checkpoint::Lease;
using checkpoint::Piece;
using checkpoint::Scratch;
using checkpoint::Store;

ModelConfig tiny(const std::string& family) {
  return test::tiny_model(family, {.vocab = 37,
                                   .hidden = 24,
                                   .mlp = 40,
                                   .layers = 2,
                                   .heads = 3,
                                   .kv_heads = family == "llama" ? 1 : 3,
                                   .head_dim = family == "qwen3" ? 16 : 8,
                                   .positions = 16});
}

// A model's weights, and a checkpoint of them in parts as several tensor ranks cut them.
class Weights {
 public:
  explicit Weights(const ModelConfig& model) : model_(model) {
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    for (const ForeignTensor& tensor : foreign_tensors(model)) {
      for (const ForeignTensor::Part& part : tensor.parts) {
        auto& values = values_[part.parameter];
        shapes_[part.parameter] = part.shape;
        values.resize(static_cast<std::size_t>(part.shape.count()));
        for (float& value : values) value = normal(random);
      }
    }
  }

  void commit(const fs::path& run) {
    std::vector<Piece> pieces;
    std::vector<std::vector<float>> memory;
    memory.reserve(2 * values_.size());
    for (const auto& [name, values] : values_) {
      const Shape shape = shapes_[name];
      const int dim = shape.rank() == 2 && name.find(".o.") != std::string::npos ? 1 : 0;
      const std::int64_t half = shape[dim] / 2;
      for (const auto& [from, count] :
           {std::pair{std::int64_t{0}, half}, {half, shape[dim] - half}}) {
        Box box = checkpoint::all_of(shape);
        box.from[dim] = from;
        box.extent[dim] = count;
        memory.push_back(part_of(name, box));
        pieces.push_back({"model/" + name, DType::kF32, shape, box,
                          reinterpret_cast<std::byte*>(memory.back().data())});
      }
    }
    const Lease lease(run);
    Store store(run, lease);
    checkpoint::Snapshot snapshot;
    snapshot.manifest.step = 1;
    checkpoint::Saver(store, pieces).save(std::move(snapshot));
  }

  std::vector<float> part_of(const std::string& name, const Box& box) const {
    const Shape shape = shapes_.at(name);
    std::vector<float> part(static_cast<std::size_t>(box.extent.count()));
    checkpoint::for_each_run(box, checkpoint::all_of(shape), box,
                             [&](auto from, auto to, auto count) {
                               std::copy_n(values_.at(name).data() + from, count, part.data() + to);
                             });
    return part;
  }
  std::map<std::string, std::vector<float>>& values() { return values_; }
  const std::map<std::string, Shape>& shapes() const { return shapes_; }
  const ModelConfig& model() const { return model_; }

 private:
  ModelConfig model_;
  std::map<std::string, std::vector<float>> values_;
  std::map<std::string, Shape> shapes_;
};

struct Exported {
  Exported(Weights& weights, DType dtype, std::uint64_t shard = 1 << 30,
           std::uint64_t block = 1 << 10) {
    weights.commit(run.path());
    fs::create_directories(folder());
    manifest = checkpoint::read_manifest(checkpoint());
    WeightExport out({checkpoint(), manifest, weights.model(), dtype, shard, block});
    out.write(folder());
    out.compare(ForeignWeights(folder(), weights.model()));
    files = out.files();
  }
  fs::path checkpoint() const { return run.path() / "checkpoints/step-00000001"; }
  fs::path folder() const { return run.path() / "exported"; }
  Scratch run;
  checkpoint::Manifest manifest;
  std::size_t files = 0;
};

// Every box of every parameter, as an import in another layout would ask for.
void expect_boxes(const Weights& weights, const fs::path& folder) {
  const ForeignWeights foreign(folder, weights.model());
  for (const auto& [name, shape] : weights.shapes()) {
    Box box = checkpoint::all_of(shape);
    for (int dim = 0; dim < shape.rank(); ++dim) {
      box.from[dim] = shape[dim] / 3;
      box.extent[dim] = (shape[dim] + 1) / 2;
      std::vector<float> got(static_cast<std::size_t>(box.extent.count()));
      const Piece piece{"model/" + name, DType::kF32, shape, box,
                        reinterpret_cast<std::byte*>(got.data())};
      foreign.fill({&piece, 1});
      EXPECT_EQ(got, weights.part_of(name, box)) << name << " along " << dim;
    }
  }
}

TEST(ForeignWeights, an_export_reads_back_in_every_family_block_and_box) {
  for (const std::string& family : model_types()) {
    Weights weights(tiny(family));
    for (const std::uint64_t block : {1u << 8, 1u << 20}) {
      const Exported exported(weights, DType::kF32, 1 << 12, block);
      EXPECT_GT(exported.files, 3u);
      EXPECT_TRUE(fs::exists(exported.folder() / "model.safetensors.index.json"));
      expect_boxes(weights, exported.folder());
    }
  }
}

// What the files say without any of our readers: a Conv1D's matrix is the transposed one, and
// query, key and value are one.
TEST(ForeignWeights, gpt2s_matrices_lie_transposed_in_the_file) {
  Weights weights(tiny("gpt2"));
  const Exported exported(weights, DType::kF32);
  EXPECT_EQ(exported.files, 1u);
  const checkpoint::huggingface::ModelFolder folder(exported.folder());
  const auto joined = folder.find("transformer.h.1.attn.c_attn.weight");
  ASSERT_EQ(joined.shape, (Shape{24, 72}));
  std::vector<float> all(24 * 72);
  folder.read(joined, 0, all);
  const auto& values = weights.values()["layers.1.attention.k.weight"];  // [24, 24]
  for (std::size_t in = 0; in < 24; ++in) {
    for (std::size_t out = 0; out < 24; ++out) {
      ASSERT_EQ(all[in * 72 + 24 + out], values[out * 24 + in]);
    }
  }
  const auto down = folder.find("transformer.h.0.mlp.c_proj.weight");
  EXPECT_EQ(down.shape, (Shape{40, 24}));
}

TEST(ForeignWeights, half_precision_rounds_and_float16_refuses_what_it_cannot_hold) {
  Weights weights(tiny("llama"));
  const Exported exported(weights, DType::kBf16);
  const checkpoint::huggingface::ModelFolder folder(exported.folder());
  const auto norm = folder.find("model.norm.weight");
  EXPECT_EQ(norm.dtype, DType::kBf16);
  std::vector<float> got(24);
  folder.read(norm, 0, got);
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i], static_cast<float>(Bf16(weights.values()["norm.weight"][i])));
  }
  EXPECT_NO_THROW(Exported(weights, DType::kF16));
  weights.values()["norm.weight"][3] = 1e6f;
  EXPECT_THROW(Exported(weights, DType::kF16), CheckpointError);
}

TEST(ForeignWeights, a_damaged_checkpoint_or_another_models_is_refused) {
  Weights weights(tiny("qwen2"));
  const Exported exported(weights, DType::kF32);
  const auto refused = [&](const ModelConfig& model, const std::string& word) {
    try {
      ForeignWeights(exported.folder(), model);
      ADD_FAILURE() << "accepted without " << word;
    } catch (const CheckpointError& error) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
    EXPECT_THROW(WeightExport({exported.checkpoint(), exported.manifest, model, DType::kF32,
                               1 << 20, 1 << 20}),
                 CheckpointError);
  };
  ModelConfig other = weights.model();
  other.vocab_size = 36;
  refused(other, "model.embed_tokens.weight has shape [37, 24], expected [36, 24]");
  other = weights.model();
  other.num_hidden_layers = 3;
  refused(other, "model.layers.2.input_layernorm.weight is missing");
  other.num_hidden_layers = 1;
  refused(other, "is unexpected for this qwen2");

  const auto& tensor = *exported.manifest.find("model/norm.weight");
  const auto shard = exported.checkpoint() / exported.manifest.shards[0].name;
  std::fstream file(shard, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(tensor.rectangles[0].offset)) << "x";
  file.close();
  fs::create_directories(exported.run.path() / "again");
  WeightExport again(
      {exported.checkpoint(), exported.manifest, weights.model(), DType::kF32, 1 << 30, 1 << 20});
  EXPECT_THROW(again.write(exported.run.path() / "again"), CheckpointError);
}

// The first GPT-2s: no prefix, and tables that are no parameters.
TEST(ForeignWeights, old_names_are_understood_and_old_tables_passed_over) {
  Weights weights(tiny("gpt2"));
  Scratch scratch;
  using checkpoint::huggingface::NewTensor;
  std::vector<NewTensor> tensors;
  for (const ForeignTensor& tensor : foreign_tensors(weights.model())) {
    tensors.push_back({tensor.name.substr(std::string("transformer.").size()), tensor.shape});
  }
  tensors.push_back({"h.0.attn.bias", {1, 1, 16, 16}});
  tensors.push_back({"h.0.attn.masked_bias", {}});
  const auto write = [&] {
    checkpoint::huggingface::SafetensorsWriter writer(scratch.path() / "model.safetensors", tensors,
                                                      DType::kF32);
    for (const NewTensor& tensor : tensors) {
      writer.append(std::vector<std::byte>(static_cast<std::size_t>(tensor.shape.count()) * 4));
    }
    writer.finish();
  };
  write();
  EXPECT_NO_THROW(ForeignWeights(scratch.path(), weights.model()));
  fs::remove(scratch.path() / "model.safetensors");
  tensors.push_back({"h.0.attn.rotation", {3}});
  write();
  EXPECT_THROW(ForeignWeights(scratch.path(), weights.model()), CheckpointError);
}

}  // namespace
}  // namespace trireme
