#include "data/batch_documents.h"

#include <set>

namespace trireme::data {

DocumentList batch_documents(const SampleSource& source, const LeftOut& left_out,
                             std::uint64_t trained, std::uint64_t count, std::size_t most) {
  DocumentList list;
  std::set<DocumentId> seen;
  for (std::uint64_t i = 0; i < count; ++i) {
    for (const DocumentSlice& slice : source.documents_of(left_out.sample(trained + i))) {
      const DocumentId id{slice.source, slice.document};
      if (seen.contains(id)) continue;
      if (seen.size() == most) {
        list.complete = false;
        return list;
      }
      seen.insert(id);
      list.documents.push_back(id);
    }
  }
  return list;
}

}  // namespace trireme::data
