#include "tests/checkpoint/power_loss/operation_log.h"

#include <cstring>

#include "model/base/error.h"
#include "model/base/file.h"

namespace trireme::checkpoint {

std::vector<Operation> read_operations(const std::filesystem::path& log) {
  const MappedFile file(log);
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                              file.bytes().size());
  std::vector<Operation> operations;
  std::size_t at = 0;
  const auto take = [&](std::size_t n) {
    require(n <= text.size() - at, log.string(), ": cut off at byte ", at);
    const std::string_view part = text.substr(at, n);
    at += n;
    return part;
  };
  while (at < text.size()) {
    file_faults::Record record;
    std::memcpy(&record, take(sizeof record).data(), sizeof record);
    require(record.magic == record.kMagic, log.string(), ": no record before byte ", at);
    Operation operation;
    operation.kind = record.kind;
    operation.path = take(record.path_bytes);
    operation.other = take(record.other_bytes);
    operation.offset = static_cast<std::uint64_t>(record.offset);
    operation.size = record.size;
    if (record.kind == file_faults::Kind::kWrite) operation.bytes = take(record.size);
    operations.push_back(std::move(operation));
  }
  return operations;
}

}  // namespace trireme::checkpoint
