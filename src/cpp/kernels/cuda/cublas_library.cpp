// Opens cuBLASLt by hand and looks up its functions.
#include "kernels/cuda/cublas_library.h"

#include "kernels/cuda/library.h"
#include "runtime/env.h"

namespace ea::cuda {

namespace {

// Returns the name of a function the library lacks, or null.
const char* fill(void* library, CublasLt& lt) {
#define EA_LOOK_UP(member, name) \
  if (!look_up(library, #name, lt.member)) return #name
  EA_LOOK_UP(version, cublasLtGetVersion);
  EA_LOOK_UP(status_string, cublasLtGetStatusString);
  EA_LOOK_UP(create, cublasLtCreate);
  EA_LOOK_UP(matmul, cublasLtMatmul);
  EA_LOOK_UP(desc_create, cublasLtMatmulDescCreate);
  EA_LOOK_UP(desc_destroy, cublasLtMatmulDescDestroy);
  EA_LOOK_UP(desc_set, cublasLtMatmulDescSetAttribute);
  EA_LOOK_UP(layout_create, cublasLtMatrixLayoutCreate);
  EA_LOOK_UP(layout_destroy, cublasLtMatrixLayoutDestroy);
  EA_LOOK_UP(layout_set, cublasLtMatrixLayoutSetAttribute);
  EA_LOOK_UP(preference_create, cublasLtMatmulPreferenceCreate);
  EA_LOOK_UP(preference_destroy, cublasLtMatmulPreferenceDestroy);
  EA_LOOK_UP(preference_set, cublasLtMatmulPreferenceSetAttribute);
  EA_LOOK_UP(heuristic, cublasLtMatmulAlgoGetHeuristic);
#undef EA_LOOK_UP
  return nullptr;
}

CublasLt open() {
  std::string tried;
  if (auto found = open_first<CublasLt>(cublas_places(), fill, "12.4", tried)) {
    return *found;
  }
  fail<BackendUnavailable>(
      "cuda",
      "cuBLASLt was not found, which computes matrix products on the GPU; "
      "pip install nvidia-cublas, or name its file in EA_CUBLASLT. Looked "
      "at:{}",
      tried);
}

}  // namespace

std::vector<std::string> cublas_places() {
  if (!env::cublas_lt().empty()) return {env::cublas_lt()};
  const auto site = site_packages() / "nvidia";
  return {site / "cu13" / "lib" / "libcublasLt.so.13",
          site / "cublas" / "lib" / "libcublasLt.so.12", "libcublasLt.so.13",
          "libcublasLt.so.12"};
}

const CublasLt& cublas_lt() {
  static const CublasLt one = open();
  return one;
}

}  // namespace ea::cuda
