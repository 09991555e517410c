#pragma once
#include <cstddef>
#include <list>
#include <map>
#include <utility>

namespace trireme {

// The values used last, by their keys. References stay valid until `most` others have been used.
template <class Key, class Value>
class Recent {
 public:
  explicit Recent(std::size_t most) : most_(most) {}

  // The value of a key, which `make` returns if it is not known.
  template <class Make>
  Value& of(const Key& key, const Make& make) {
    const auto known = places_.find(key);
    if (known != places_.end()) {
      values_.splice(values_.begin(), values_, known->second);
      return values_.front().second;
    }
    if (values_.size() == most_) {
      places_.erase(values_.back().first);
      values_.pop_back();
    }
    values_.emplace_front(key, make());
    places_.emplace(key, values_.begin());
    return values_.front().second;
  }

 private:
  std::size_t most_;
  std::list<std::pair<Key, Value>> values_;  // the last first
  std::map<Key, typename std::list<std::pair<Key, Value>>::iterator> places_;
};

}  // namespace trireme
