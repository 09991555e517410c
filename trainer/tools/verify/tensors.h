#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "trainer/tools/verify/subject.h"

namespace trireme::verify {

// All parameters of a model, concatenated in model order. The number of an element does not depend
// on the layout.
class Tensors {
 public:
  struct Entry {
    std::string name;
    Shape shape;
    std::int64_t first = 0;      // number of the first element
    std::size_t weight = 0;      // parameters of one matmul have the same
    std::int64_t part_rows = 0;  // rows of a head; 0: no heads
  };
  Tensors(const ParamStore& whole, const ModelConfig& model);

  const std::vector<Entry>& entries() const { return entries_; }
  std::size_t size() const { return entries_.size(); }
  const Entry& operator[](std::size_t i) const { return entries_[i]; }
  std::size_t index(const std::string& name) const { return by_name_.at(name); }
  std::int64_t elements() const { return elements_; }

 private:
  std::vector<Entry> entries_;
  std::map<std::string, std::size_t> by_name_;
  std::int64_t elements_ = 0;
};

// Compared quantities of a parameter.
enum class Quantity : std::uint8_t {
  kGradient,  // before clipping
  kMaster,    // master weights
  kValue,     // weights that the layers read, where a rank holds them unsharded
  kMoment,    // optimizer state of one name
};
const char* name_of(Quantity quantity);

// A contiguous range of a parameter on this rank.
struct LocalRange {
  std::size_t tensor;
  const Param* param;
  std::int64_t first;  // in the parameter's box
  Tensor data;         // flat
  bool is_primary;     // each element is primary on exactly one rank of a subject
};
// Ranges that this rank owns (for kValue, all that it holds). Requires takes_part().
std::vector<LocalRange> held_by(const Subject& subject, const Tensors& tensors, Quantity quantity,
                                const std::string& moment = {});
// Gradient buffers of ranges that this rank does not own; empty if it has none.
std::vector<LocalRange> not_owned_by(const Subject& subject, const Tensors& tensors);

}  // namespace trireme::verify
