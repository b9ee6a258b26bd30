// Typed key-value settings from Python, and their declarations.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ea {

// A setting with the value None is not in the map.
class Options {
 public:
  using Value = std::variant<bool, std::int64_t, double, std::string,
                             std::vector<double>>;

  void set(const std::string& key, Value value) {
    values_[key] = std::move(value);
  }
  bool has(const std::string& key) const { return values_.count(key) > 0; }
  const std::map<std::string, Value>& values() const { return values_; }
  bool operator==(const Options& other) const {
    return values_ == other.values_;
  }

  // These throw ConfigError, naming the key, if it is missing or of another
  // type.
  std::int64_t integer(const std::string& key) const;
  double number(const std::string& key) const;  // takes integers too
  // Takes one number, or a list of numbers.
  std::vector<double> numbers(const std::string& key) const;
  bool flag(const std::string& key) const;
  std::string text(const std::string& key) const;

  std::int64_t integer(const std::string& key, std::int64_t otherwise) const {
    return has(key) ? integer(key) : otherwise;
  }
  double number(const std::string& key, double otherwise) const {
    return has(key) ? number(key) : otherwise;
  }
  bool flag(const std::string& key, bool otherwise) const {
    return has(key) ? flag(key) : otherwise;
  }
  std::string text(const std::string& key, const std::string& otherwise) const {
    return has(key) ? text(key) : otherwise;
  }

 private:
  std::map<std::string, Value> values_;
};

// Checked values: positive() is a size of at least 1, whole_numbers() a list of
// sizes, rate() a dropout probability in [0, 1). All throw ConfigError.
std::int64_t positive(const Options& options, const char* key);
inline std::int64_t positive(const Options& options, const char* key,
                             std::int64_t otherwise) {
  return options.has(key) ? positive(options, key) : otherwise;
}
std::vector<std::int64_t> whole_numbers(const Options& options,
                                        const char* key);
double rate(const Options& options, const char* key, double otherwise);

// One declared option of a variant: the only source of its name, type, range
// and meaning. Tests compare Python's dataclasses with it.
struct OptionSpec {
  std::string name;
  std::string type;  // "float", "int", "bool", "str"; with "?" it may be None
  std::optional<Options::Value> fallback = {};  // none: required
  double low = 0, high = 0;                     // limits of numbers, inclusive
  std::vector<std::string> choices = {};        // accepted strings
  bool odd = false;                             // whether integers must be odd
  std::string doc;
  bool per_layer = false;  // a "float" may be a list with one number per layer
};

// Throws ConfigError "[where] ..." for unknown keys (listing the known ones),
// missing ones, wrong types and values out of range. Returns the options with
// the defaults filled in. The key "kind" is kept.
Options validate_options(const std::string& where, const Options& given,
                         const std::vector<OptionSpec>& specs);

}  // namespace ea
