#pragma once
#include "parallel/comm/communicator.h"

// Checks of the tensors of a collective, on planning streams too. Overlap is checked only on
// executing streams, since all planning arenas begin at the same address.
namespace trireme::comm {

inline bool overlap(const Tensor& a, const Tensor& b) {
  return a.count() > 0 && b.count() > 0 && a.data < b.data + b.bytes() &&
         b.data < a.data + a.bytes();
}

// This rank's slice of `whole`: elements [rank * part, (rank + 1) * part).
inline Tensor place_of(int rank, const Tensor& whole, std::int64_t part) {
  return whole.slice(rank * part, part);
}

inline void check_parts(const char* call, const Communicator& group, const Tensor& whole,
                        const Tensor& part) {
  require(whole.dtype == part.dtype && whole.count() == part.count() * group.size(), call,
          ": whole is ", name_of(whole.dtype), " ", whole.shape, ", not ", group.size(),
          " times the part ", name_of(part.dtype), " ", part.shape);
}

inline void check_places(const char* call, const Communicator& group, const Tensor& whole,
                         const Tensor& part) {
  require(!overlap(whole, part) || place_of(group.rank(), whole, part.count()).data == part.data,
          call, ": the part overlaps the whole outside its rank's slice");
}

inline void check_blocks(const char* call, const Communicator& group, const RankBlocks& received,
                         const RankBlocks& sent) {
  const Tensor &to = received.tensor, &from = sent.tensor;
  const bool are_equal = received.counts.empty() && sent.counts.empty();
  require(to.dtype == from.dtype && received.count() <= to.count() &&
              sent.count() <= from.count() &&
              (!are_equal || (to.count() == from.count() && from.count() % group.size() == 0)),
          call, ": received is ", name_of(to.dtype), " ", to.shape, ", sent ", name_of(from.dtype),
          " ", from.shape, ", for ", group.size(),
          are_equal ? " equal blocks of each" : " blocks of each with fewer elements in all");
  if (are_equal) return;
  const auto size = static_cast<std::size_t>(group.size()),
             own = static_cast<std::size_t>(group.rank());
  require(received.counts.size() == size && sent.counts.size() == size, call, ": ",
          received.counts.size(), " blocks are received and ", sent.counts.size(), " sent among ",
          size, " ranks");
  require(received.counts[own] == sent.counts[own], call, ": rank ", own, " sends ",
          sent.counts[own], " elements to itself and receives ", received.counts[own]);
}

inline void check_apart(const char* call, const RankBlocks& received, const RankBlocks& sent) {
  require(!overlap(received.tensor, sent.tensor), call, ": received and sent overlap");
}

inline void check_peer(const char* call, const Communicator& group, int peer) {
  require(peer >= 0 && peer < group.size() && peer != group.rank(), call, ": rank ", group.rank(),
          " of ", group.size(), " cannot exchange messages with rank ", peer);
}

inline void check_root(const char* call, const Communicator& group, int root) {
  require(root >= 0 && root < group.size(), call, ": no rank ", root, " in a group of ",
          group.size());
}

}  // namespace trireme::comm
