// Opens NCCL by hand and looks up its functions.
#include "kernels/cuda/nccl_library.h"

#include "kernels/cuda/library.h"
#include "runtime/env.h"

namespace ea::cuda {

namespace {

// Returns the name of a function the library lacks, or null.
const char* fill(void* library, NcclLibrary& nccl) {
#define EA_LOOK_UP(member, name) \
  if (!look_up(library, #name, nccl.member)) return #name
  EA_LOOK_UP(get_version, ncclGetVersion);
  EA_LOOK_UP(error_string, ncclGetErrorString);
  EA_LOOK_UP(get_id, ncclGetUniqueId);
  EA_LOOK_UP(init_rank, ncclCommInitRank);
  EA_LOOK_UP(destroy, ncclCommDestroy);
  EA_LOOK_UP(abort, ncclCommAbort);
  EA_LOOK_UP(async_error, ncclCommGetAsyncError);
  EA_LOOK_UP(group_start, ncclGroupStart);
  EA_LOOK_UP(group_end, ncclGroupEnd);
  EA_LOOK_UP(send, ncclSend);
  EA_LOOK_UP(receive, ncclRecv);
  EA_LOOK_UP(all_gather, ncclAllGather);
#undef EA_LOOK_UP
  return nullptr;
}

NcclLibrary open() {
  std::string tried;
  if (auto found = open_first<NcclLibrary>(nccl_places(), fill, "2.7", tried)) {
    return *found;
  }
  fail<BackendUnavailable>(
      "nccl",
      "NCCL was not found, by which several GPUs exchange gradients; pip "
      "install nvidia-nccl-cu13 (-cu12 for a driver of CUDA 12), or name its "
      "file in EA_NCCL. Looked at:{}",
      tried);
}

}  // namespace

std::vector<std::string> nccl_places() {
  if (!env::nccl().empty()) return {env::nccl()};
  return {site_packages() / "nvidia" / "nccl" / "lib" / "libnccl.so.2",
          "libnccl.so.2"};
}

const NcclLibrary& nccl_library() {
  static const NcclLibrary one = open();
  return one;
}

}  // namespace ea::cuda
