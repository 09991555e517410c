#include "trainer/supervise/launch/hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "model/base/error.h"

namespace trireme {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(host_file, reads_open_mpis_form) {
  EXPECT_THAT(
      parse_host_file("# the cluster\nnode1 slots=8\n\nnode2  slots=4 # half\nnode3\n", "f"),
      ElementsAre(HostSlots{"node1", 8}, HostSlots{"node2", 4}, HostSlots{"node3", 1}));
}

TEST(host_file, a_wrong_line_is_named) {
  const auto complaint = [](const std::string& text) -> std::string {
    try {
      parse_host_file(text, "hosts");
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(complaint("a slots=2\nb slots=two\n"), HasSubstr("hosts:2: slots=two"));
  EXPECT_THAT(complaint("a slots=-1\n"), HasSubstr("hosts:1"));
  EXPECT_THAT(complaint("a max_slots=4\n"), HasSubstr("max_slots=4"));
  EXPECT_THAT(complaint("a\nb\na\n"), HasSubstr("hosts:3: a is listed twice"));
}

TEST(host_file, is_read_anew_and_its_hosts_are_given_to_mpirun) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "hostfile";
  std::ofstream(path) << "a slots=2\nb slots=2\n";
  HostFile hosts(path);
  EXPECT_EQ(slots_of(hosts.usable()), 4);
  std::ofstream(path) << "a slots=0\nb slots=2\n";
  const std::vector<HostSlots> places = hosts.usable();
  EXPECT_EQ(slots_of(places), 2);
  const auto words = hosts.launcher(2, places, {"NAME"});
  EXPECT_THAT(words, Contains("b:2"));
  EXPECT_THAT(words, Contains("NAME"));
  std::filesystem::remove(path);
  EXPECT_THROW(hosts.usable(), EnvironmentError);
}

TEST(host_file, tells_a_ranks_host_by_the_name_that_it_reports) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "hostfile-names";
  std::ofstream(path) << "node1.site slots=2\nnode2 slots=2\n";
  HostFile hosts(path);
  EXPECT_EQ(hosts.host_of(0, "node2.site", hosts.usable()), "node2");
  EXPECT_EQ(hosts.host_of(0, "node1", hosts.usable()), "node1.site");
  EXPECT_EQ(hosts.host_of(0, "node3", hosts.usable()), "");
  std::filesystem::remove(path);
}

TEST(places, have_slots_for_so_many_ranks_in_their_order) {
  const std::vector<HostSlots> places{{"a", 2}, {"b", 0}, {"c", 2}};
  EXPECT_THAT(first_slots(places, 3), ElementsAre(HostSlots{"a", 2}, HostSlots{"c", 1}));
  EXPECT_FALSE(lacks(places, first_slots(places, 3)));
  EXPECT_TRUE(lacks({{"a", 2}}, first_slots(places, 3)));
  EXPECT_TRUE(lacks({{"a", 1}, {"c", 2}}, first_slots(places, 3)));
}

}  // namespace
}  // namespace trireme
