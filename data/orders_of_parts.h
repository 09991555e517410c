#pragma once
#include <memory>
#include <vector>

#include "data/mixture.h"
#include "data/sequencer.h"

namespace trireme::data {

// Number of samples in one epoch of a part.
std::uint64_t windows_of(const SourcePart& part, const SequenceSpec& sequence);

// Trireme's order, and Megatron-LM's, of opened sources; the parts outlive it.
std::unique_ptr<SampleOrder> window_order_of(const std::vector<SourcePart>& parts, Mixture mixture,
                                             const SequenceSpec& sequence);
std::unique_ptr<SampleOrder> megatron_order_of(const std::vector<SourcePart>& parts,
                                               const SequenceSpec& sequence);

}  // namespace trireme::data
