// cuBLASLt's functions for matrix products, looked up by name.
#pragma once

#include <cublasLt.h>

#include <string>
#include <vector>

namespace ea::cuda {

struct CublasLt {
  std::string path;
  decltype(&cublasLtGetVersion) version;
  decltype(&cublasLtGetStatusString) status_string;
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulDescCreate) desc_create;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set;
  decltype(&cublasLtMatrixLayoutCreate) layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
};

// Paths to try, in order: EA_CUBLASLT (a file; nothing else is tried then), the
// nvidia-cublas package installed next to this one, then the system loader's
// search.
std::vector<std::string> cublas_places();

// Opens the library at the first call. Throws BackendUnavailable, with the
// reason why each path failed.
const CublasLt& cublas_lt();

}  // namespace ea::cuda
