#include "trainer/convert/huggingface/foreign_weights.h"

#include <algorithm>
#include <set>

#include "model/base/error.h"

namespace trireme {
namespace {

constexpr std::string_view kWeights = "model/";
constexpr std::string_view kGpt2Prefix = "transformer.";
constexpr int kMostNamed = 5;

// Early GPT-2 files have no prefix.
std::string name_there(const checkpoint::huggingface::ModelFolder& folder,
                       const std::string& name) {
  if (folder.contains(name) || !name.starts_with(kGpt2Prefix)) return name;
  return name.substr(kGpt2Prefix.size());
}

class Findings {
 public:
  void add(const std::string& what) {
    if (++count_ <= kMostNamed) text_ += "\n  " + what;
  }
  // Throws CheckpointError if there are findings.
  void finish(const std::string& where) const {
    if (count_ == 0) return;
    const std::string more =
        count_ > kMostNamed ? say("\n  and ", count_ - kMostNamed, " more") : "";
    throw CheckpointError(say(where, " does not match the config:", text_, more));
  }

 private:
  int count_ = 0;
  std::string text_;
};

}  // namespace

ForeignWeights::ForeignWeights(const std::filesystem::path& folder, const ModelConfig& model)
    : folder_(folder) {
  Findings findings;
  std::set<std::string> known;
  for (const ForeignTensor& tensor : foreign_tensors(model)) {
    const std::string name = name_there(folder_, tensor.name);
    known.insert(name);
    if (!folder_.contains(name)) {
      findings.add(tensor.name + " is missing");
      continue;
    }
    const auto source = folder_.find(name);
    if (source.shape != tensor.shape) {
      findings.add(say(name, " has shape ", source.shape, ", expected ", tensor.shape));
    }
    for (const ForeignTensor::Part& part : tensor.parts) {
      locations_.emplace(part.parameter, Location{source, part, tensor.transposed, tensor.rows()});
    }
  }
  for (const std::string& name : folder_.names()) {
    if (known.contains(name) || may_be_ignored(name, model)) continue;
    findings.add(say(name, " is unexpected for this ", model.model_type));
  }
  findings.finish(folder.string());
}

void ForeignWeights::fill(std::span<const checkpoint::Piece> wanted) const {
  for (const checkpoint::Piece& piece : wanted) fill(piece);
}

void ForeignWeights::fill(const checkpoint::Piece& piece) const {
  require(piece.tensor.starts_with(kWeights), piece.tensor, " is not a weight");
  const auto found = locations_.find(std::string_view(piece.tensor).substr(kWeights.size()));
  require(found != locations_.end() && found->second.part.shape == piece.shape &&
              piece.dtype == DType::kF32,
          piece.tensor, " is not a float32 weight of this model");
  const auto& [source, part, transposed, slab_rows] = found->second;
  const bool is_matrix = piece.shape.rank() == 2;
  const std::int64_t width = is_matrix ? piece.shape[1] : 1;
  const std::int64_t rows = piece.box.extent[0], columns = is_matrix ? piece.box.extent[1] : 1;
  const std::int64_t row = part.first_row + part.row_step * piece.box.from[0];
  const std::int64_t column = is_matrix ? piece.box.from[1] : 0;
  auto* const to = reinterpret_cast<float*>(piece.data);
  const auto count = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  if (transposed) {
    std::vector<float> line(count((rows - 1) * part.row_step + 1));
    for (std::int64_t c = 0; c < columns; ++c) {
      folder_.read(source, (part.slab * width + column + c) * slab_rows + row, line);
      for (std::int64_t r = 0; r < rows; ++r) to[r * columns + c] = line[count(r * part.row_step)];
    }
  } else if (columns == width) {
    folder_.read(source, row * width, {to, count(rows * width)});
  } else {
    for (std::int64_t r = 0; r < rows; ++r) {
      folder_.read(source, (row + r) * width + column, {to + r * columns, count(columns)});
    }
  }
}

}  // namespace trireme
