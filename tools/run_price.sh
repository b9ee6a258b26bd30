#!/usr/bin/env bash
# Apply the diffs of tests/price (a toy attention kind, a toy operation, a toy model
# family) to a copy of the tree, build it with CPU and emulated CUDA kernels, and run
# the tests of the toys.
#
#   tools/run_price.sh [PYTEST ARGUMENTS]
#
# EA_PRICE holds the copy (clone/) and its build (build/devices/), arranged as in
# .ci/run: with CCACHE_BASEDIR, ccache then has all that the diffs do not touch.
# PYTHON is the interpreter (see tools/build_variant.sh).
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/build_variant.sh"

origin=$repo
folder=${EA_PRICE:-${TMPDIR:-/tmp}/ea-price-${UID}}
[ $# -gt 0 ] || set -- tests/price

rm -rf "$folder/clone"
mkdir -p "$folder/clone"
tar -C "$origin" -c --exclude=__pycache__ --exclude='*.so' --exclude='*.so.*' \
  CMakeLists.txt pyproject.toml cmake src tests | tar -C "$folder/clone" -x
repo=$(cd "$folder/clone" && pwd)
if [[ $python = "$origin"/.venv/* ]]; then # its headers, by the same relative paths
  ln -s "$origin/.venv" "$repo/.venv"
  python=$repo/${python#"$origin"/}
fi
for name in kind operation family; do
  (cd "$repo" && GIT_CEILING_DIRECTORIES=$folder git apply "tests/price/$name.patch")
done

build=$folder/build/devices
configure "$build" -DEA_CUDA_HOST_TESTS=ON -DEA_CUDA=OFF
build "$build" _core_cuda_host
test_package "$build/cuda_host" "$@"
