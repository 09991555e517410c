#include "checkpoint/format/crc32c.h"

#include <gtest/gtest.h>

#include <random>
#include <string_view>
#include <vector>

#include "checkpoint/format/checksums.h"

namespace trireme::checkpoint {
namespace {

std::span<const std::byte> text_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(Crc32c, agrees_with_the_published_vectors) {
  EXPECT_EQ(crc32c(text_bytes("123456789")), 0xe3069283u);
  EXPECT_EQ(crc32c(std::vector<std::byte>(32)), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::vector<std::byte>(32, std::byte{0xff})), 0x62a8ab43u);
  EXPECT_EQ(crc32c({}), 0u);
}

TEST(Crc32c, a_message_is_the_sum_of_its_shifted_parts) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::byte> message(1 + random() % 5000);
    for (std::byte& byte : message) byte = std::byte(random());
    const std::size_t cut = random() % (message.size() + 1);
    const auto head = std::span(message).first(cut);
    const auto tail = std::span(message).subspan(cut);
    const std::uint32_t sum = shifted(remainder_of(head), tail.size()) ^ remainder_of(tail);
    EXPECT_EQ(crc_from(sum, message.size()), crc32c(message));
    EXPECT_EQ(Shift(tail.size())(remainder_of(head)), shifted(remainder_of(head), tail.size()));
  }
}

TEST(Crc32c, the_digest_of_a_tensor_does_not_depend_on_its_cut) {
  std::mt19937 random(2);
  for (const Shape& shape : {Shape{30}, Shape{7, 11}, Shape{4, 5, 6}, Shape{3, 4, 2, 5}}) {
    std::vector<float> values(std::size_t(shape.count()));
    for (float& value : values) value = float(random());
    const auto all = std::as_bytes(std::span(values));
    for (int dim = 0; dim < shape.rank(); ++dim) {
      for (std::int64_t cut = 1; cut < shape[dim]; ++cut) {
        std::uint32_t remainder = 0;
        for (const bool upper : {false, true}) {
          Box box = all_of(shape);
          box.from[dim] = upper ? cut : 0;
          box.extent[dim] = upper ? shape[dim] - cut : cut;
          std::vector<std::byte> packed(std::size_t(box.extent.count()) * 4);
          for_each_run(box, box, all_of(shape), [&](auto to, auto from, auto count) {
            std::copy_n(all.begin() + from * 4, count * 4, packed.begin() + to * 4);
          });
          const Digest digest = digest_of(box, shape, 4, [&](std::uint64_t at, std::size_t n) {
            return std::span<const std::byte>(packed).subspan(std::size_t(at), n);
          });
          EXPECT_EQ(digest.crc32c, crc32c(packed));
          const auto share = share_of(box, shape, 4, digest.crc32c);
          EXPECT_EQ(share.has_value(), dim == 0 || box.extent.count() == box.extent[dim]);
          EXPECT_EQ(share.value_or(digest.share), digest.share);
          remainder ^= digest.share;
        }
        EXPECT_EQ(crc_from(remainder, all.size()), crc32c(all))
            << shape << " " << dim << " " << cut;
      }
    }
  }
}

}  // namespace
}  // namespace trireme::checkpoint
