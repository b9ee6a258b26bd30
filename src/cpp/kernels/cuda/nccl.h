// GPUs of several processes that exchange memory by NCCL.
#pragma once

#include <memory>
#include <string>

#include "runtime/communicator.h"

namespace ea::cuda {

// "NCCL 2.30.7 (libnccl.so.2)". Throws BackendUnavailable without it, as all
// of these do.
std::string nccl_report();
// 128 bytes that name a new communicator.
std::string nccl_id();
// Of GPU number `index`. Waits until all ranks are there and connected to each
// other. Throws ConfigError for another kind of id, Error with NCCL's reason.
std::unique_ptr<Communicator> make_communicator(int index, int size, int rank,
                                                const std::string& id);

}  // namespace ea::cuda
