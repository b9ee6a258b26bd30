// All environment variables of the core; no other file reads any.
#pragma once

#include <string>

namespace ea::env {

// EA_MAX_ISA=avx2|avx512: highest instruction set to use ("" = no limit).
const std::string& max_isa();
// EA_KERNEL=name:implementation[,...]: force implementations ("*": all names).
const std::string& kernel_choice();
// EA_NUM_THREADS: default number of threads (0 = usable_cpus() of
// runtime/cgroup.h).
int num_threads();
// EA_DISABLE=name[,...]|all: fast paths to turn off (runtime/fast_paths.h).
const std::string& disabled();
// EA_CUBLASLT: the file of the cuBLASLt library to use.
const std::string& cublas_lt();
// EA_NCCL: the file of the NCCL library to use.
const std::string& nccl();
// CUDA_VISIBLE_DEVICES, for messages only: CUDA itself obeys it.
const std::string& cuda_visible_devices();
// EA_PROFILE=1: time every op and report.
bool profile();

}  // namespace ea::env
