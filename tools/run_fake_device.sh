#!/usr/bin/env bash
# Build the extension with the tests' fake device in its own folder, and run the device
# tests: no GPU, and the device memory faults when the host reads it.
#
#   tools/run_fake_device.sh [PYTEST ARGUMENTS]
#
# EA_DEVICES_BUILD is the build folder, shared with tools/run_cuda_host.sh; PYTHON is
# the interpreter (see tools/build_variant.sh).
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/build_variant.sh"

folder=${EA_DEVICES_BUILD:-${TMPDIR:-/tmp}/ea-devices-${UID}}
[ $# -gt 0 ] || set -- "$repo/tests/fake_device" "$repo/tests/test_devices.py"

configure "$folder" -DEA_FAKE_DEVICE_TESTS=ON -DEA_CUDA=OFF
build "$folder" _core_fake_device
test_package "$folder/fake_device" "$@"
