#pragma once
#include <cstddef>
#include <list>
#include <map>

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
      entries_.splice(entries_.begin(), entries_, known->second);
      return entries_.front().value;
    }
    if (entries_.size() == most_) {
      places_.erase(entries_.back().key);
      entries_.pop_back();
    }
    entries_.emplace_front(key, make);
    places_.emplace(key, entries_.begin());
    return entries_.front().value;
  }

 private:
  struct Entry {
    Key key;
    Value value;
    // Values need not be movable.
    template <class Make>
    Entry(const Key& of, const Make& make) : key(of), value(make()) {}
  };

  std::size_t most_;
  std::list<Entry> entries_;  // the last first
  std::map<Key, typename std::list<Entry>::iterator> places_;
};

}  // namespace trireme
