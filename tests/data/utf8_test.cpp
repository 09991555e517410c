#include "data/utf8.h"

#include <gtest/gtest.h>

namespace trireme::data {
namespace {

TEST(Utf8, replaces_maximal_subparts_as_unicode_says) {
  // Unicode 15, tables 3-8 to 3-11.
  EXPECT_EQ(well_formed("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD"
            "\uFFFD\uFFFD\uFFFD"
            "A");
  EXPECT_EQ(well_formed("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD"
            "A");
  EXPECT_EQ(well_formed("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD"
            "A\uFFFD\uFFFD"
            "B");
  EXPECT_EQ(well_formed("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"),
            "\uFFFD\uFFFD\uFFFD\uFFFD"
            "A");
  EXPECT_EQ(well_formed("\xF1\x80\x80"), "\uFFFD");
}

TEST(Utf8, keeps_well_formed_text) {
  for (const char* text : {"", "the ship", "déjà vu, 漢字 🙂"})
    EXPECT_EQ(well_formed(text), text);
}

}  // namespace
}  // namespace trireme::data
