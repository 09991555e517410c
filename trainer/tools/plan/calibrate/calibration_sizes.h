#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/device/device.h"
#include "model/ops/heads.h"

namespace trireme {

// What a calibration measures: sizes that suit a kind of device.
struct CalibrationSizes {
  struct Product {
    std::int64_t rows, columns, depth;
  };
  // Of matmuls: projections of tokens, and weight gradients. Each is measured in the three forms of
  // a linear layer: forward, input gradient, weight gradient.
  std::vector<Product> products;
  // Of grouped matmuls, with so many rows on average; in the same three forms.
  struct Grouped {
    std::int64_t groups;
    Product each;
  };
  std::vector<Grouped> grouped;
  struct Attention {
    std::int64_t width, seq;
  };
  std::vector<Attention> attention;
  std::int64_t attention_tokens = 0, attention_hidden = 0;

  std::int64_t stream_rows = 0, stream_width = 0, words = 0;  // of memory-bound ops
  ops::Heads stream_heads;
  std::int64_t numbers_below = 0;     // bound of positions and token ids; at most the rows
  std::int64_t updated = 0;           // parameters of an optimizer's update
  std::int64_t much = 0, little = 0;  // elements of additions
  std::size_t spread = 0;             // bytes that calls in turn use, more than a cache holds
  std::size_t arena = 0;              // bytes for all tensors of a measurement
  // Message sizes of a run: activations between tensor ranks, buckets between data ranks.
  std::size_t activations = 0, bucket = 0;
};

// Of small models on a CPU, of models of a few billion parameters on a GPU.
const CalibrationSizes& calibration_sizes(Device device);

}  // namespace trireme
