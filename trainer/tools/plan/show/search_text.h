#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "trainer/tools/plan/search/search.h"

namespace trireme {

// The best layouts with the largest time difference to the first, and the rejected ones by reason.
std::string search_text(const SearchResult& result, double available);

// The same layouts with all their degrees.
nlohmann::ordered_json search_json(const SearchResult& result);

}  // namespace trireme
