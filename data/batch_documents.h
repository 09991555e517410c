#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/left_out.h"
#include "data/sequencer.h"

namespace trireme::data {

struct DocumentId {
  std::size_t source;
  std::int64_t document;  // as numbered in the token file
  bool operator==(const DocumentId&) const = default;
};

struct DocumentList {
  std::vector<DocumentId> documents;  // without duplicates, in order of first appearance
  bool complete = true;               // false: the list was truncated
};

// At most `most` documents of the `count` samples that follow after `trained` trained samples.
DocumentList batch_documents(const SampleSource& source, const LeftOut& left_out,
                             std::uint64_t trained, std::uint64_t count, std::size_t most);

}  // namespace trireme::data
