// Finds the folder where this package is installed.
#include "kernels/cuda/library.h"

namespace ea::cuda {

std::filesystem::path site_packages() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&site_packages), &info) == 0) {
    return {};
  }
  std::error_code ignored;
  const auto file = std::filesystem::absolute(info.dli_fname, ignored);
  return file.parent_path().parent_path();
}

}  // namespace ea::cuda
