#pragma once
#include <cstdint>

#include "model/device/stream.h"
#include "model/tensor/tensor.h"

namespace trireme {

enum class Reduce : std::uint8_t { kSum, kMax };

// An ordered set of ranks that talk to each other. Work is queued on the stream
// like any kernel. A communicator of one is legal and does nothing, so no caller
// ever asks whether it is alone.
class Communicator {
 public:
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual void all_reduce(Stream&, Tensor, Reduce) = 0;
  virtual void all_gather(Stream&, Tensor whole, Tensor part) = 0;
  virtual void reduce_scatter(Stream&, Tensor part, Tensor whole) = 0;
  virtual void send(Stream&, Tensor, int to) = 0;
  virtual void receive(Stream&, Tensor, int from) = 0;
};

}  // namespace trireme
