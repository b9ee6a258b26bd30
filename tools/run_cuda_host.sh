#!/usr/bin/env bash
# Build the host emulation of the CUDA kernels, in its own folder, and run its tests:
# the very same sources, executed on the CPU between guard pages and compared with ref.
# Where nvcc is, build the real extension too: it must import on machines without a GPU.
# A kernel that spills registers fails the build.
#
#   tools/run_cuda_host.sh [PYTEST ARGUMENTS]
#
# PYTHON names an interpreter that has the build requirements of pyproject.toml, cmake,
# ninja and the test requirements (default: python3); EA_CUDA_HOST_BUILD the build folder.
set -euo pipefail

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=${PYTHON:-python3}
build=${EA_CUDA_HOST_BUILD:-${TMPDIR:-/tmp}/ea-cuda-host-${UID}}
if [ $# -eq 0 ]; then
  set -- "$repo/tests/cuda_host" "$repo/tests/cuda" "$repo/tests/kernels/test_agreement.py" \
    -k "cuda_host or every_kernel or step_log or test_device or test_training or test_ops"
fi

site=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
bin=$(dirname "$("$python" -c 'import sys; print(sys.executable)')")
export PATH=$bin:$PATH
mkdir -p "$build"
cmake -S "$repo" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_CXX_COMPILER_LAUNCHER="$(command -v ccache || true)" \
  -DCMAKE_PREFIX_PATH="$site;$site/cmeel.prefix" \
  -Dpybind11_DIR="$("$python" -m pybind11 --cmakedir)" \
  -DPython_EXECUTABLE="$("$python" -c 'import sys; print(sys.executable)')" \
  -DEA_CUDA_HOST_TESTS=ON -DEA_CUDA=AUTO -DEA_CUDA_ARCHITECTURES=90a \
  -DCMAKE_CUDA_FLAGS="-Xptxas=-warn-spills,-Werror" \
  > "$build/cmake.log" || { tail -n 40 "$build/cmake.log"; exit 1; }
targets=(_core_cuda_host ea_cuda_host_checks)
real=
if grep -q '^-- CUDA kernels: ON' "$build/cmake.log"; then
  targets+=(_core)
  real=$build/cuda
else
  echo "run_cuda_host: no nvcc 12.4 or newer here, or no cublasLt.h (pip install" \
    "nvidia-cublas): nothing is compiled for a GPU"
fi
cmake --build "$build" -j "$(nproc)" --target "${targets[@]}" > "$build/build.log" 2>&1 \
  || { grep -E "error|warning" "$build/build.log" | head -n 40; exit 1; }

cd "$repo"
PYTHONPATH=$build/cuda_host "$python" -c \
  'import evolving_attention._core as c; print("under test:", c.__file__)'
PYTHONPATH=$build/cuda_host PYTHONDONTWRITEBYTECODE=1 \
  "$python" -m pytest -q -n "$(nproc)" -p no:cacheprovider "$@"
if [ -n "$real" ]; then
  PYTHONPATH=$real "$python" -c 'import evolving_attention as ea; print(ea.doctor()["cuda"]["reason"])'
  PYTHONPATH=$real PYTHONDONTWRITEBYTECODE=1 \
    "$python" -m pytest -q -p no:cacheprovider "$repo/tests/test_devices.py"
fi
