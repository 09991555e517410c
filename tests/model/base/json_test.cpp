#include "model/base/json.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace trireme {
namespace {

struct Wheel {
  int spokes = 0;
  double size = 0;
};
TRIREME_JSON(Wheel, spokes, size)

enum class Color { kRed, kBlue };
std::string json_form(Color color) {
  return color == Color::kRed ? "red" : "blue";
}
const char* set_json_form(Color& color, const std::string& name) {
  color = name == "red" ? Color::kRed : Color::kBlue;
  return name == "red" || name == "blue" ? nullptr : "a color is";
}

struct Bicycle {
  std::string name = "x";
  Color color = Color::kRed;
  std::vector<Wheel> wheels = {{3, 0.1}, {4, 1.0}};
  std::map<std::string, std::int64_t> parts = {{"bell", 1}};
  std::set<std::int64_t> gears = {7, 5};
  std::array<std::uint64_t, 2> range = {1, 2};
  std::optional<Wheel> spare = {};
  std::optional<std::int64_t> age = {};
  nlohmann::json notes = nlohmann::json::object();
  bool is_old = false;
  std::uint32_t frame = 0xab;
  std::int64_t floor = -1;
};
void json_fields(auto& f, Bicycle& bicycle) {
  f("name", bicycle.name, {.most = 8});
  f("color", bicycle.color);
  f("wheels", bicycle.wheels);
  f("parts", bicycle.parts, {.most = 9});
  f("gears", bicycle.gears);
  f("range", bicycle.range);
  if (f.has("spare", bicycle.spare.has_value())) f.nullable("spare", bicycle.spare);
  f.nullable("age", bicycle.age, {.most = 100});
  f("notes", bicycle.notes);
  f("is_old", bicycle.is_old);
  f.hex("frame", bicycle.frame);
  f("floor", bicycle.floor, {.least = -2, .most = 3});
  f.check("floor", bicycle.floor != 2, "it is closed");
}

constexpr const char* kText =
    R"({"name":"x","color":"red","wheels":[{"spokes":3,"size":0.1},{"spokes":4,"size":1.0}],)"
    R"("parts":{"bell":1},"gears":[5,7],"range":[1,2],"age":null,"notes":{},"is_old":false,)"
    R"("frame":"000000ab","floor":-1})";

std::string why(const std::string& old, const std::string& by, JsonKeys keys = JsonKeys::kKnown) {
  std::string text = kText;
  try {
    read_json<Bicycle, DataError>(text.replace(text.find(old), old.size(), by), "F", keys);
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

TEST(Json, keeps_the_order_of_the_fields_or_sorts_them) {
  EXPECT_EQ(json_text<nlohmann::ordered_json>(Bicycle()), kText);
  EXPECT_EQ(json_text(Wheel{2, -0.0}), R"({"size":-0.0,"spokes":2})");
  EXPECT_EQ(json_text(Wheel{2, 0.5}, 1), "{\n \"size\": 0.5,\n \"spokes\": 2\n}");
}

TEST(Json, reads_back_what_it_wrote) {
  Bicycle bicycle;
  bicycle.color = Color::kBlue;
  bicycle.spare = Wheel{5, 1e-300};
  bicycle.age = 30;
  bicycle.notes = {{"a", {1, 2}}};
  const std::string text = json_text(bicycle);
  EXPECT_EQ(json_text(read_json<Bicycle>(text, "F")), text);
  EXPECT_EQ(read_json<Bicycle>(text, "F").spare->size, 1e-300);
  std::mt19937_64 random(5);
  for (int round = 0; round < 1000; ++round) {
    const auto number = std::bit_cast<double>(random() & ~(std::uint64_t{1} << 62));
    EXPECT_EQ(read_json<std::vector<double>>(json_text(std::vector{number}), "F")[0], number);
  }
}

TEST(Json, names_the_text_the_path_and_the_value_that_is_wrong) {
  EXPECT_EQ(why("\"x\"", "7"), "F: name: a string is expected, found 7");
  EXPECT_EQ(why("\"x\"", "\"123456789\""), "F: name: more than 8 bytes");
  EXPECT_EQ(why("\"red\"", "\"green\""), "F: color: a color is expected, found \"green\"");
  EXPECT_EQ(why("0.1", "\"1\""), "F: wheels[0].size: a number is expected, found \"1\"");
  EXPECT_EQ(why("\"spokes\":4", "\"spokes\":-4"),
            "F: wheels[1].spokes: a whole number from 0 to 2147483647 is expected, found -4");
  EXPECT_EQ(
      why("\"spokes\":4", "\"spokes\":2147483648"),
      "F: wheels[1].spokes: a whole number from 0 to 2147483647 is expected, found 2147483648");
  EXPECT_EQ(why("\"spokes\":4", "\"spokes\":4.0"),
            "F: wheels[1].spokes: a whole number from 0 to 2147483647 is expected, found 4.0");
  EXPECT_EQ(why("\"spokes\":4,", ""), "F: wheels[1].spokes: missing");
  EXPECT_EQ(why("\"spokes\":4", "\"spokes\":4,\"rim\":1"), "F: wheels[1]: unknown key \"rim\"");
  EXPECT_EQ(why("{\"bell\":1}", "{\"bell\":10}"),
            "F: parts.bell: a whole number from 0 to 9 is expected, found 10");
  EXPECT_EQ(why("{\"bell\":1}", "[]"), "F: parts: an object is expected, found []");
  EXPECT_EQ(why("[5,7]", "5"), "F: gears: a list is expected, found 5");
  EXPECT_EQ(why("[1,2]", "[1]"), "F: range: 2 values are expected, found [1]");
  EXPECT_EQ(why("null", "101"), "F: age: a whole number from 0 to 100 is expected, found 101");
  EXPECT_EQ(why("\"notes\":{}", "\"notes\":[]"), "F: notes: an object is expected, found []");
  EXPECT_EQ(why("false", "0"), "F: is_old: true or false is expected, found 0");
  EXPECT_EQ(why("000000ab", "000000AB"), "F: frame: 8 hex digits are expected, found \"000000AB\"");
  EXPECT_EQ(why("-1", "-3"), "F: floor: a whole number from -2 to 3 is expected, found -3");
  EXPECT_EQ(why("-1", "2"), "F: floor: it is closed");
  EXPECT_EQ(why("-1", "-1,\"floor\":1"), "F: key \"floor\" appears twice");
  EXPECT_EQ(why("-1", "-1,\"m\\u00e9\":1"), "F: unknown key \"m??\"");
  EXPECT_EQ(why("-1", "-1,\"more\":1", JsonKeys::kAny), "");
  EXPECT_EQ(why("-1", "1e999").substr(0, 24), "F: [json.exception.out_o");
  EXPECT_EQ(why("-1", "").substr(0, 24), "F: [json.exception.parse");
  EXPECT_EQ(why("{}", std::string(40, '[') + std::string(40, ']')), "F: nested too deeply");
}

TEST(Json, is_nothing_if_it_is_damaged) {
  EXPECT_TRUE(valid_json<Bicycle>(kText));
  EXPECT_FALSE(valid_json<Bicycle>("{}"));
  EXPECT_FALSE(valid_json<Wheel>("{\"spokes\":1,"));
  EXPECT_FALSE(valid_json<Wheel>(R"({"spokes":1,"size":2,"rim":3})"));
  EXPECT_TRUE(valid_json<Wheel>(R"({"spokes":1,"size":2,"rim":3})", JsonKeys::kAny));
}

TEST(Json, of_others_is_read_where_it_fits) {
  const auto object = nlohmann::json::parse(R"({"a":1,"b":"x","c":true,"d":1.5,"e":null})");
  EXPECT_EQ(json_at<std::int64_t>(object, "a"), 1);
  EXPECT_EQ(json_at<double>(object, "a"), 1.0);
  EXPECT_EQ(json_at<std::int64_t>(object, "d"), std::nullopt);
  EXPECT_EQ(json_at<std::string>(object, "b"), "x");
  EXPECT_EQ(json_at<bool>(object, "c"), true);
  EXPECT_EQ(json_at<bool>(object, "e"), std::nullopt);
  EXPECT_EQ(json_at<bool>(object, "f"), std::nullopt);
  EXPECT_EQ(json_at<bool>(nlohmann::json(1), "f"), std::nullopt);
}

TEST(Hex, has_all_digits_in_lowercase) {
  EXPECT_EQ(hex(std::uint32_t{0x00e30a9f}), "00e30a9f");
  EXPECT_EQ(hex(std::uint64_t{0xfe}), "00000000000000fe");
  EXPECT_EQ(hex(-0.0), "8000000000000000");
  EXPECT_EQ(from_hex<std::uint32_t>("00e30a9f"), 0x00e30a9fu);
  EXPECT_EQ(from_hex<double>("3ff0000000000000"), 1.0);
  for (const char* text : {"", "e30a9f", "00E30a9f", "00e30a9g", "+0e30a9f", "000e30a9f"}) {
    EXPECT_EQ(from_hex<std::uint32_t>(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace trireme
