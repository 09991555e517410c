#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "trainer/tools/verify/subject.h"

namespace trireme::verify {

// A model's parameters in its order, end to end: every element has a number that no layout
// changes.
class Tensors {
 public:
  struct Entry {
    std::string name;
    Shape shape;
    std::int64_t first = 0;      // number of its first element
    std::size_t weight = 0;      // parameters that one matrix product serves share it
    std::int64_t part_rows = 0;  // rows that belong together, a head's; 0: every row for itself
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

// What there is of each parameter.
enum class Quantity : std::uint8_t {
  kGradient,  // before the clip
  kMaster,    // what the optimizer updates
  kValue,     // what the layers read, where a rank holds it whole
  kMoment,    // what the optimizer keeps of the gradients, under one name
};
const char* name_of(Quantity quantity);

// Elements that a rank holds.
struct Held {
  std::size_t tensor;
  const Param* param;
  std::int64_t first;  // in the parameter's box
  Tensor data;         // flat
  bool stands;         // over the ranks of a subject every element stands once
};
// Of a rank that takes part: what it owns, of kValue all it holds.
std::vector<Held> held_by(const Subject& subject, const Tensors& tensors, Quantity quantity,
                          const std::string& moment = {});
// Whatever lies in the places of gradients that this rank does not own; nothing where it has none.
std::vector<Held> not_owned_by(const Subject& subject, const Tensors& tensors);

}  // namespace trireme::verify
