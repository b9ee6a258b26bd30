// Opens libraries with dlopen at run time and looks up their functions.
#pragma once

#include <dlfcn.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/check.h"

namespace ea::cuda {

// Returns the folder that holds this package: the extension is
// PACKAGE/_core….so.
std::filesystem::path site_packages();

template <typename Function>
bool look_up(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

// Opens the first of `places` in which fill(library, functions) finds all
// functions; fill returns the name of a missing function or null. `tried`
// receives the reasons why earlier places failed; `needed` is the version named
// there. An opened library is never closed, because its own threads and statics
// outlive any user.
template <typename Functions, typename Fill>
std::optional<Functions> open_first(const std::vector<std::string>& places,
                                    Fill fill, const char* needed,
                                    std::string& tried) {
  for (const std::string& place : places) {
    Functions found{};
    found.path = place;
    void* const library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      tried += format("\n  {}: {}", place, dlerror());
      continue;
    }
    const char* const missing = fill(library, found);
    if (missing == nullptr) return found;
    tried += format("\n  {}: has no {}; {} or newer is needed", place, missing,
                    needed);
  }
  return {};
}

}  // namespace ea::cuda
