// EA_HOST_DEVICE: marks functions that CUDA kernels call too.
#pragma once

#if defined(__CUDACC__)
#define EA_HOST_DEVICE __host__ __device__
#else
#define EA_HOST_DEVICE
#endif
