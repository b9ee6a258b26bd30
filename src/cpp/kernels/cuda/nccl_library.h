// NCCL's functions for exchanging memory between ranks, looked up by name.
// Their types are declared here, so the build needs no NCCL header.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "kernels/cuda/api.h"

namespace ea::cuda {

// Same as in nccl.h since NCCL 2.7: ncclResult_t, ncclDataType_t and
// ncclUniqueId.
enum class NcclResult : int { success = 0, in_progress = 7 };
enum class NcclType : int { uint8 = 1 };
struct NcclId {
  char bytes[128];
};
using NcclComm = struct ncclComm*;

struct NcclLibrary {
  std::string path;
  NcclResult (*get_version)(int* version);
  const char* (*error_string)(NcclResult result);
  NcclResult (*get_id)(NcclId* id);
  NcclResult (*init_rank)(NcclComm* comm, int size, NcclId id, int rank);
  NcclResult (*destroy)(NcclComm comm);
  NcclResult (*abort)(NcclComm comm);
  NcclResult (*async_error)(NcclComm comm, NcclResult* error);
  NcclResult (*group_start)();
  NcclResult (*group_end)();
  NcclResult (*send)(const void* from, std::size_t count, NcclType type,
                     int peer, NcclComm comm, cudaStream_t stream);
  NcclResult (*receive)(void* to, std::size_t count, NcclType type, int peer,
                        NcclComm comm, cudaStream_t stream);
  NcclResult (*all_gather)(const void* from, void* to, std::size_t count,
                           NcclType type, NcclComm comm, cudaStream_t stream);
};

// Paths to try, in order: EA_NCCL (a file; nothing else is tried then), the
// package nvidia-nccl-cu13 or -cu12 installed next to this one, then the system
// loader's search.
std::vector<std::string> nccl_places();

// Opens the library at the first call. Throws BackendUnavailable, with the
// reason why each path failed.
const NcclLibrary& nccl_library();

}  // namespace ea::cuda
