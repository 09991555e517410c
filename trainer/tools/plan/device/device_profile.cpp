#include "trainer/tools/plan/device/device_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <fstream>

#include "model/base/error.h"
#include "model/base/file.h"
#include "model/base/json.h"
#include "model/device/imagined.h"

namespace trireme {

void json_fields(auto& f, Link& link) {
  f("name", link.name);
  f("bandwidth", link.bandwidth);
  f("reached", link.reached);
  f("latency", link.latency);
  if (f.has("ll128_latency", link.ll128_latency > 0)) {
    f("ll128_latency", link.ll128_latency);
  }
}

void json_fields(auto& f, GroupLink& group) {
  f("ranks", group.ranks);
  f("link", group.link);
  if (f.has("lockstep", group.lockstep > 0)) f("lockstep", group.lockstep);
}

void json_fields(auto& f, MatmulEfficiency& matmul) {
  f("product", matmul.product);
  f("half_depth", matmul.half_depth);
  f("half_rows", matmul.half_rows);
  f("half_columns", matmul.half_columns);
}

void json_fields(auto& f, ProductRate& rate) {
  f("peak", rate.peak);
  f("product", rate.product);
  f("half_depth", rate.half_depth);
  f("flash", rate.flash);
  if (f.has("own_flash", rate.own_flash > 0)) f("own_flash", rate.own_flash);
  f("half_rows", rate.half_rows);
  f("half_columns", rate.half_columns);
  f("half_width", rate.half_width);
  f("half_keys", rate.half_keys);
  f("streams", rate.streams);
  const auto measured = [&](const char* key, std::optional<MatmulEfficiency>& matmul) {
    if (f.has(key, matmul.has_value())) f.nullable(key, matmul);
  };
  measured("grouped", rate.grouped);
  measured("weight_gradient", rate.weight_gradient);
  measured("grouped_weight_gradient", rate.grouped_weight_gradient);
}

void json_fields(auto& f, Network& network) {
  f("ranks_per_node", network.ranks_per_node);
  f("within", network.within);
  f("between", network.between);
  f("beside", network.overlaps);
  f("held", network.occupied);
  if (f.has("straggling", network.straggling > 0)) f("straggling", network.straggling);
  if (f.has("lockstep", network.lockstep > 0)) f("lockstep", network.lockstep);
  if (f.has("pairwise", network.pairwise)) f("pairwise", network.pairwise);
  if (f.has("even", network.even)) f("even", network.even);
  if (f.has("ranks_per_host", network.ranks_per_host > 0)) {
    f("ranks_per_host", network.ranks_per_host);
  }
  if (f.has("within_groups", !network.within_groups.empty())) {
    f("within_groups", network.within_groups);
  }
  if (f.has("shared", network.shared.has_value())) f.nullable("shared", network.shared);
}

namespace {

// DeviceProfile::rates by name, without those that are not supported.
struct NamedRates {
  std::array<ProductRate, kNumberFormats>& rates;
};
void json_fields(auto& f, NamedRates& named) {
  for (int kind = 0; kind < kNumberFormats; ++kind) {
    ProductRate& rate = named.rates[static_cast<std::size_t>(kind)];
    const char* name = name_of(static_cast<NumberFormat>(kind));
    if (f.has(name, rate.peak > 0)) f(name, rate);
  }
}

}  // namespace

void json_fields(auto& f, DeviceProfile& profile) {
  NamedRates rates{profile.rates};
  f("name", profile.name);
  f("source", profile.source);
  f("memory_bytes", profile.memory_bytes);
  f("memory_bandwidth", profile.memory_bandwidth);
  f("streamed", profile.streamed);
  f("launch", profile.launch);
  f("units", profile.units);
  f("cores", profile.cores);
  if (f.has("idle_time_used", profile.idle_time_used < 1)) {
    f("idle_time_used", profile.idle_time_used);
  }
  f("rates", rates);
  f("network", profile.network);
  if (f.has("host", profile.host.bandwidth > 0)) f("host", profile.host);
}

namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

void check(const DeviceProfile& profile, const std::string& from) {
  const auto positive = [&](const char* key, double value) {
    if (!(value > 0)) throw ConfigError(say(from, ": ", key, " = ", value, ": must be above 0"));
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
  for (const GroupLink& group : profile.network.within_groups) {
    positive("within_groups.ranks", group.ranks);
    positive("within_groups.link.bandwidth", group.link.bandwidth);
    positive("within_groups.link.reached", group.link.reached);
  }
  if (profile.host.bandwidth != 0) {
    positive("host.bandwidth", profile.host.bandwidth);
    positive("host.reached", profile.host.reached);
  }
  for (const ProductRate& rate : profile.rates) {
    if (rate.peak <= 0) continue;
    positive("product", rate.product);
    if (rate.grouped) positive("grouped.product", rate.grouped->product);
    if (rate.weight_gradient) positive("weight_gradient.product", rate.weight_gradient->product);
    if (rate.grouped_weight_gradient) {
      positive("grouped_weight_gradient.product", rate.grouped_weight_gradient->product);
    }
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
    case NumberFormat::kMxfp8:
      return "mxfp8";
    case NumberFormat::kNvfp4:
      return "nvfp4";
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
  const double most = share(std::max(busy, 1.0)) / share(network.ranks_per_node);
  return 1 + idle_time_used * (most - 1);
}

std::string listed_names() {
  std::string names;
  for (const DeviceProfile& profile : listed_profiles()) {
    names += say(names.empty() ? "" : ", ", profile.name);
  }
  return names;
}

DeviceProfile find_profile(const std::string& name) {
  if (name.ends_with(".json")) return read_profile(name);
  for (const DeviceProfile& profile : listed_profiles()) {
    if (lower(profile.name) == lower(name)) return profile;
  }
  throw ConfigError(say("unknown device \"", name, "\"; expected one of ", listed_names(),
                        ", or a .json profile written by trireme doctor --calibrate"));
}

void write_profile(const std::filesystem::path& path, const DeviceProfile& profile) {
  std::ofstream file(path);
  file << json_text<nlohmann::ordered_json>(profile, 2) << '\n';
  if (!file.flush()) throw EnvironmentError(say("cannot write ", path.string()));
}

DeviceProfile read_profile(const std::filesystem::path& path) {
  try {
    auto profile = read_json<DeviceProfile, ConfigError>(read_text(path), path.string());
    check(profile, path.string());
    if (profile.shares_cores()) profile.band = kSharedCoresBand;
    return profile;
  } catch (const EnvironmentError& error) {
    throw ConfigError(error.what());
  }
}

}  // namespace trireme
