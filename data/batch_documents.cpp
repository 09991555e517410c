#include "data/batch_documents.h"

#include <set>
#include <utility>

namespace trireme::data {

DocumentList batch_documents(const SampleSource& source, const LeftOut& left_out,
                             std::uint64_t trained, std::uint64_t count, std::size_t most) {
  DocumentList list;
  std::set<std::pair<std::size_t, std::int64_t>> seen;
  for (std::uint64_t i = 0; i < count; ++i) {
    for (const DocumentSlice& slice : source.documents_of(left_out.sample(trained + i))) {
      if (seen.contains({slice.source, slice.document})) continue;
      if (seen.size() == most) {
        list.complete = false;
        return list;
      }
      seen.emplace(slice.source, slice.document);
      list.documents.push_back({slice.source, slice.document});
    }
  }
  return list;
}

}  // namespace trireme::data
