#include "trainer/tools/plan/device_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <nlohmann/json.hpp>

#include "model/base/error.h"
#include "model/base/file.h"
#include "model/device/imagined.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

Json to_json(const Link& link) {
  return {{"name", link.name},
          {"bandwidth", link.bandwidth},
          {"reached", link.reached},
          {"latency", link.latency}};
}

Link link_from(const Json& json) {
  return {json.at("name"), json.at("bandwidth"), json.at("reached"), json.at("latency")};
}

Json to_json(const DeviceProfile& profile) {
  Json rates = Json::object();
  for (int kind = 0; kind < kNumberFormats; ++kind) {
    const ProductRate& rate = profile.rates[static_cast<std::size_t>(kind)];
    if (rate.peak <= 0) continue;
    rates[name_of(static_cast<NumberFormat>(kind))] = {{"peak", rate.peak},
                                                       {"product", rate.product},
                                                       {"half_depth", rate.half_depth},
                                                       {"flash", rate.flash},
                                                       {"half_rows", rate.half_rows},
                                                       {"half_columns", rate.half_columns},
                                                       {"half_width", rate.half_width},
                                                       {"half_keys", rate.half_keys},
                                                       {"streams", rate.streams}};
  }
  Json network = {{"ranks_per_node", profile.network.ranks_per_node},
                  {"within", to_json(profile.network.within)},
                  {"between", to_json(profile.network.between)},
                  {"beside", profile.network.overlaps},
                  {"held", profile.network.occupied}};
  if (profile.network.shared) network["shared"] = to_json(*profile.network.shared);
  return {{"name", profile.name},
          {"source", profile.source},
          {"memory_bytes", profile.memory_bytes},
          {"memory_bandwidth", profile.memory_bandwidth},
          {"streamed", profile.streamed},
          {"launch", profile.launch},
          {"units", profile.units},
          {"cores", profile.cores},
          {"rates", rates},
          {"network", network}};
}

DeviceProfile profile_from(const Json& json) {
  DeviceProfile profile{.name = json.at("name"),
                        .source = json.at("source"),
                        .memory_bytes = json.at("memory_bytes"),
                        .memory_bandwidth = json.at("memory_bandwidth"),
                        .streamed = json.at("streamed"),
                        .launch = json.at("launch"),
                        .units = json.at("units"),
                        .cores = json.at("cores"),
                        .rates = {},
                        .network = {}};
  for (int kind = 0; kind < kNumberFormats; ++kind) {
    const auto found = json.at("rates").find(name_of(static_cast<NumberFormat>(kind)));
    if (found == json.at("rates").end()) continue;
    profile.rates[static_cast<std::size_t>(kind)] = {.peak = found->at("peak"),
                                                     .product = found->at("product"),
                                                     .half_depth = found->at("half_depth"),
                                                     .flash = found->at("flash"),
                                                     .half_rows = found->at("half_rows"),
                                                     .half_columns = found->at("half_columns"),
                                                     .half_width = found->at("half_width"),
                                                     .half_keys = found->at("half_keys"),
                                                     .streams = found->at("streams")};
  }
  const Json& network = json.at("network");
  profile.network = {.ranks_per_node = network.at("ranks_per_node"),
                     .within = link_from(network.at("within")),
                     .between = link_from(network.at("between")),
                     .overlaps = network.at("beside"),
                     .occupied = network.at("held")};
  if (network.contains("shared")) profile.network.shared = link_from(network.at("shared"));
  return profile;
}

void check(const DeviceProfile& profile) {
  const auto positive = [](const char* key, double value) {
    if (!(value > 0)) throw ConfigError(say(key, " = ", value, ": must be above 0"));
  };
  positive("memory_bytes", profile.memory_bytes);
  positive("memory_bandwidth", profile.memory_bandwidth);
  positive("streamed", profile.streamed);
  positive("units", profile.units);
  positive("network.ranks_per_node", profile.network.ranks_per_node);
  for (const Link* link : {&profile.network.within, &profile.network.between}) {
    positive("bandwidth", link->bandwidth);
    positive("reached", link->reached);
  }
  for (const ProductRate& rate : profile.rates) {
    if (rate.peak <= 0) continue;
    positive("product", rate.product);
    positive("flash", rate.flash);
    for (const auto& [name, reached] : rate.streams) positive(name.c_str(), reached);
  }
}

}  // namespace

const char* name_of(NumberFormat numbers) {
  switch (numbers) {
    case NumberFormat::kFloat32:
      return "float32";
    case NumberFormat::kHalf:
      return "half";
    case NumberFormat::kFloat8:
      return "float8";
  }
  return "";
}

NumberFormat format_of(std::size_t element) {
  return element == 1   ? NumberFormat::kFloat8
         : element == 2 ? NumberFormat::kHalf
                        : NumberFormat::kFloat32;
}

double DeviceProfile::stream_bandwidth(NumberFormat numbers, const std::string& op) const {
  const std::map<std::string, double>& known = rate(numbers).streams;
  const auto found = known.find(op);
  return memory_bandwidth * (found == known.end() ? streamed : found->second);
}

Device DeviceProfile::device() const {
  return name.starts_with("CPU") ? Device{} : imagined_gpu();
}

double DeviceProfile::pace(double busy) const {
  if (cores == 0) return 1;
  const auto share = [&](double ranks) { return std::min(1.0, cores / ranks); };
  return share(std::max(busy, 1.0)) / share(network.ranks_per_node);
}

DeviceProfile find_profile(const std::string& name) {
  if (name.ends_with(".json")) return read_profile(name);
  std::string known;
  for (const DeviceProfile& profile : listed_profiles()) {
    if (lower(profile.name) == lower(name)) return profile;
    known += say(known.empty() ? "" : ", ", profile.name);
  }
  throw ConfigError(say("unknown device \"", name, "\"; expected one of ", known,
                        ", or a .json profile written by trireme doctor --calibrate"));
}

void write_profile(const std::filesystem::path& path, const DeviceProfile& profile) {
  std::ofstream file(path);
  file << to_json(profile).dump(2) << '\n';
  if (!file.flush()) throw EnvironmentError(say("cannot write ", path.string()));
}

DeviceProfile read_profile(const std::filesystem::path& path) {
  try {
    const DeviceProfile profile = profile_from(Json::parse(read_text(path)));
    check(profile);
    return profile;
  } catch (const EnvironmentError& error) {
    throw ConfigError(error.what());
  } catch (const Json::exception& error) {
    throw ConfigError(say(path.string(), ": ", error.what()));
  } catch (const ConfigError& error) {
    throw ConfigError(say(path.string(), ": ", error.what()));
  }
}

}  // namespace trireme
