// The functions of cuBLASLt that products need, looked up by name.
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

// Where it is looked for, in order: EA_CUBLASLT (a file; then nowhere else),
// the nvidia-cublas package beside this one, what the system's loader finds.
std::vector<std::string> cublas_places();

// Opened at the first call. Throws BackendUnavailable, which says why each
// place had none.
const CublasLt& cublas_lt();

}  // namespace ea::cuda
