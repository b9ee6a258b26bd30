// Exchanges memory between the GPUs of several processes through NCCL.
#pragma once

#include <memory>
#include <string>

#include "runtime/communicator.h"

namespace ea::cuda {

// Returns e.g. "NCCL 2.30.7 (libnccl.so.2)". All of these functions throw
// BackendUnavailable without NCCL.
std::string nccl_report();
// Returns 128 bytes that identify a new communicator.
std::string nccl_id();
// Creates the communicator of GPU number `index`. Waits until all ranks are
// present and connected to each other. Throws ConfigError for an id of the
// wrong size, Error with NCCL's reason.
std::unique_ptr<Communicator> make_communicator(int index, int size, int rank,
                                                const std::string& id);

}  // namespace ea::cuda
