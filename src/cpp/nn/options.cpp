// Reads and checks settings.
#include "nn/options.h"

#include <algorithm>
#include <cmath>

#include "runtime/check.h"

namespace ea {

namespace {

template <typename T>
const T* find(const std::map<std::string, Options::Value>& values,
              const std::string& key, const char* type) {
  const auto it = values.find(key);
  if (it == values.end()) {
    fail<ConfigError>("config", "'{}' is missing; expected {}", key, type);
  }
  return std::get_if<T>(&it->second);
}

std::string joined(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) {
    all += (all.empty() ? "" : ", ") + name;
  }
  return all;
}

void check_number(const std::string& where, double value,
                  const OptionSpec& spec) {
  EA_CHECK_AS(ConfigError,
              std::isfinite(value) && value >= spec.low && value <= spec.high,
              where, "{} = {} is outside [{}, {}]; it is {}", spec.name, value,
              spec.low, spec.high, spec.doc);
  EA_CHECK_AS(ConfigError,
              !spec.odd || static_cast<std::int64_t>(value) % 2 == 1, where,
              "{} = {} must be odd; it is {}", spec.name, value, spec.doc);
}

void check_value(const std::string& where, const Options& options,
                 const OptionSpec& spec) {
  const std::string type = spec.type.back() == '?'
                               ? spec.type.substr(0, spec.type.size() - 1)
                               : spec.type;
  if (type == "float" && spec.per_layer) {
    for (const double value : options.numbers(spec.name)) {
      check_number(where, value, spec);
    }
  } else if (type == "float") {
    check_number(where, options.number(spec.name), spec);
  } else if (type == "int") {
    check_number(where, static_cast<double>(options.integer(spec.name)), spec);
  } else if (type == "str") {
    const std::string value = options.text(spec.name);
    EA_CHECK_AS(ConfigError,
                std::count(spec.choices.begin(), spec.choices.end(), value) > 0,
                where, "{} = '{}'; expected one of {}", spec.name, value,
                joined(spec.choices));
  } else {
    options.flag(spec.name);
  }
}

}  // namespace

std::int64_t Options::integer(const std::string& key) const {
  if (const auto* value = find<std::int64_t>(values_, key, "an integer")) {
    return *value;
  }
  fail<ConfigError>("config", "'{}' must be an integer", key);
}

double Options::number(const std::string& key) const {
  if (const auto* value = find<double>(values_, key, "a number")) return *value;
  if (const auto* value = find<std::int64_t>(values_, key, "a number")) {
    return static_cast<double>(*value);
  }
  fail<ConfigError>("config", "'{}' must be a number", key);
}

std::vector<double> Options::numbers(const std::string& key) const {
  const auto* list = find<std::vector<double>>(values_, key, "numbers");
  return list != nullptr ? *list : std::vector<double>{number(key)};
}

bool Options::flag(const std::string& key) const {
  if (const auto* value = find<bool>(values_, key, "true or false")) {
    return *value;
  }
  fail<ConfigError>("config", "'{}' must be true or false", key);
}

std::string Options::text(const std::string& key) const {
  if (const auto* value = find<std::string>(values_, key, "a string")) {
    return *value;
  }
  fail<ConfigError>("config", "'{}' must be a string", key);
}

std::int64_t positive(const Options& options, const char* key) {
  const std::int64_t value = options.integer(key);
  EA_CHECK_AS(ConfigError, value > 0, "config", "{} = {} must be positive", key,
              value);
  return value;
}

std::vector<std::int64_t> whole_numbers(const Options& options,
                                        const char* key) {
  std::vector<std::int64_t> all;
  for (const double value : options.numbers(key)) {
    EA_CHECK_AS(ConfigError, value >= 1 && value == std::floor(value), "config",
                "{} has {}; expected whole numbers, 1 or more", key, value);
    all.push_back(static_cast<std::int64_t>(value));
  }
  return all;
}

double rate(const Options& options, const char* key, double otherwise) {
  const double value = options.number(key, otherwise);
  EA_CHECK_AS(ConfigError, value >= 0.0 && value < 1.0, "config",
              "{} = {} is outside [0, 1)", key, value);
  return value;
}

Options validate_options(const std::string& where, const Options& given,
                         const std::vector<OptionSpec>& specs) {
  std::vector<std::string> names;
  for (const OptionSpec& spec : specs) names.push_back(spec.name);
  for (const auto& [key, value] : given.values()) {
    EA_CHECK_AS(
        ConfigError,
        key == "kind" || std::count(names.begin(), names.end(), key) > 0, where,
        "unknown option '{}'; the options are: {}", key,
        names.empty() ? "none" : joined(names));
  }
  Options full = given;
  for (const OptionSpec& spec : specs) {
    if (!full.has(spec.name)) {
      if (spec.type.back() == '?') continue;
      EA_CHECK_AS(ConfigError, spec.fallback.has_value(), where,
                  "option '{}' is missing; it is {}", spec.name, spec.doc);
      full.set(spec.name, *spec.fallback);
    }
    check_value(where, full, spec);
  }
  return full;
}

}  // namespace ea
