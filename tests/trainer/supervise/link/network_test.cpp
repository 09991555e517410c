#include "trainer/supervise/link/network.h"

#include <gtest/gtest.h>

#include "model/base/error.h"
#include "trainer/supervise/link/socket.h"

namespace trireme {
namespace {

TEST(Network, a_run_on_this_machine_alone_stays_on_the_loopback_address) {
  EXPECT_EQ(own_address_towards({"localhost", "127.0.0.1"}), loopback_address());
  EXPECT_EQ(own_address_towards({}), loopback_address());
  for (const std::uint32_t address : own_addresses()) {
    EXPECT_EQ(own_address_towards({address_text(address)}), loopback_address());
  }
}

TEST(Network, addresses_are_written_as_people_do) {
  EXPECT_EQ(address_text(loopback_address()), "127.0.0.1");
  EXPECT_EQ(addresses_of("127.0.0.1"), std::vector{loopback_address()});
}

TEST(Network, a_place_is_a_host_and_a_port) {
  EXPECT_EQ(parse_host_port("n1:700").host, "n1");
  EXPECT_EQ(parse_host_port("n1:700").port, 700);
  for (const char* text : {"", "n1", ":700", "n1:", "n1:0", "n1:65536", "n1:-1", "n1:7x"}) {
    EXPECT_THROW(parse_host_port(text), ConfigError) << text;
  }
}

}  // namespace
}  // namespace trireme
