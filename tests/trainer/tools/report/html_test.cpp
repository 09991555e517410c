#include "trainer/tools/report/html.h"

#include <gtest/gtest.h>

#include <string>

#include "model/base/error.h"

namespace trireme {
namespace {

TEST(HtmlEscape, markup_becomes_text) {
  EXPECT_EQ(html_escape("<b a=\"1\" c='2'>&amp;"),
            "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;amp;");
}

TEST(HtmlEscape, valid_utf8_stays) {
  const std::string text = "é \xE6\xBC\xA2 \xF0\x9F\x9A\xA3 \xF4\x8F\xBF\xBF\n\t";
  EXPECT_EQ(html_escape(text), text);
}

TEST(HtmlEscape, whatever_is_not_text_is_replaced) {
  const std::string mark = "\xEF\xBF\xBD";
  EXPECT_EQ(html_escape("a\xff z"), "a" + mark + " z");
  EXPECT_EQ(html_escape("\xC0\xAF"), mark + mark);                     // overlong
  EXPECT_EQ(html_escape("\xE0\x80\xAF"), mark + mark + mark);          // overlong
  EXPECT_EQ(html_escape("\xED\xA0\x80"), mark + mark + mark);          // half of a pair
  EXPECT_EQ(html_escape("\xF4\x90\x80\x80").size(), 4 * mark.size());  // beyond Unicode
  EXPECT_EQ(html_escape("\xE6\xBC"), mark + mark);                     // torn
  EXPECT_EQ(html_escape(std::string("\0\x01\x1b\x7f", 4)), mark + mark + mark + mark);
  EXPECT_EQ(html_escape("line\r\n"), "line\n");
}

TEST(JsonForScript, cannot_end_the_script_and_reads_back) {
  const nlohmann::ordered_json value = {
      {"text", "</script><!-- <script> ]]> & \xE2\x80\xA8 \"quoted\" \\ é"}, {"n", 1.5}};
  const std::string json = json_for_script(value);
  EXPECT_EQ(json.find_first_of("<>&"), std::string::npos) << json;
  for (const char c : json) EXPECT_TRUE(c >= 0x20 && c < 0x7f);
  EXPECT_EQ(nlohmann::ordered_json::parse(json), value);
}

TEST(Fill, what_is_put_in_is_not_looked_at_again) {
  EXPECT_EQ(fill("a {{x}} b {{y}} {{x}}", {{"x", "{{y}}"}, {"y", "2"}}), "a {{y}} b 2 {{y}}");
}

TEST(Fill, a_form_and_its_values_must_match) {
  EXPECT_THROW(fill("{{x}}", {}), Error);
  EXPECT_THROW(fill("x", {{"x", "1"}}), Error);
  EXPECT_THROW(fill("{{x", {{"x", "1"}}), Error);
}

}  // namespace
}  // namespace trireme
