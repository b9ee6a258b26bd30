#!/usr/bin/env bash
# Build the host emulation of the CUDA kernels in its own folder and run its tests:
# the same sources, executed on the CPU between guard pages and compared with ref.
# If nvcc is available, build the real extension too: it must import without a GPU.
# A kernel that spills registers fails the build.
#
#   tools/run_cuda_host.sh [PYTEST ARGUMENTS]
#
# EA_DEVICES_BUILD is the build folder, shared with tools/run_fake_device.sh; PYTHON is
# the interpreter (see tools/build_variant.sh).
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/build_variant.sh"

folder=${EA_DEVICES_BUILD:-${TMPDIR:-/tmp}/ea-devices-${UID}}
if [ $# -eq 0 ]; then
  set -- "$repo/tests/cuda_host" "$repo/tests/cuda" "$repo/tests/kernels/test_agreement.py" \
    -k "cuda_host or every_kernel or step_log or test_device or test_training or test_ops"
fi

configure "$folder" -DEA_CUDA_HOST_TESTS=ON -DEA_CUDA=AUTO \
  -DEA_CUDA_ARCHITECTURES=90a -DCMAKE_CUDA_FLAGS="-Xptxas=-warn-spills,-Werror"
targets=(_core_cuda_host ea_cuda_host_checks)
real=
if grep -q '^-- CUDA kernels: ON' "$folder/cmake.log"; then
  targets+=(_core)
  real=$folder/cuda
else
  echo "run_cuda_host: no nvcc 12.4 or newer here, or no cublasLt.h (pip install" \
    "nvidia-cublas): nothing is compiled for a GPU"
fi
build "$folder" "${targets[@]}"

test_package "$folder/cuda_host" "$@"
if [ -n "$real" ]; then
  PYTHONPATH=$real "$python" -c 'import evolving_attention as ea; print(ea.doctor()["cuda"]["reason"])'
  test_package "$real" "$repo/tests/test_devices.py"
fi
