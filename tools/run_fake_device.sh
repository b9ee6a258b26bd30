#!/usr/bin/env bash
# Build the extension that has the tests' fake device, in its own folder, and run the
# tests of devices: memory that faults where the host reads it, no GPU.
#
#   tools/run_fake_device.sh [PYTEST ARGUMENTS]
#
# PYTHON names an interpreter that has the build requirements of pyproject.toml, cmake,
# ninja and the test requirements (default: python3); EA_FAKE_DEVICE_BUILD the folder.
set -euo pipefail

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=${PYTHON:-python3}
build=${EA_FAKE_DEVICE_BUILD:-${TMPDIR:-/tmp}/ea-fake-device-${UID}}
[ $# -gt 0 ] || set -- "$repo/tests/fake_device" "$repo/tests/test_devices.py"

site=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
bin=$(dirname "$("$python" -c 'import sys; print(sys.executable)')")
export PATH=$bin:$PATH
mkdir -p "$build"
cmake -S "$repo" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_PREFIX_PATH="$site;$site/cmeel.prefix" \
  -Dpybind11_DIR="$("$python" -m pybind11 --cmakedir)" \
  -DPython_EXECUTABLE="$("$python" -c 'import sys; print(sys.executable)')" \
  -DEA_FAKE_DEVICE_TESTS=ON -DEA_CUDA=OFF \
  > "$build/cmake.log" || { tail -n 40 "$build/cmake.log"; exit 1; }
cmake --build "$build" -j "$(nproc)" --target _core_fake_device > "$build/build.log" 2>&1 \
  || { grep -E "error|warning" "$build/build.log" | head -n 40; exit 1; }

cd "$repo"
PYTHONPATH=$build/fake_device "$python" -c \
  'import evolving_attention._core as c; print("under test:", c.__file__)'
PYTHONPATH=$build/fake_device PYTHONDONTWRITEBYTECODE=1 \
  "$python" -m pytest -q -p no:cacheprovider "$@"
