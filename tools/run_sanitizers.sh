#!/usr/bin/env bash
# Build the extension with ASan and UBSan, in its own folder, and run a short selection.
#
#   tools/run_sanitizers.sh [PYTEST ARGUMENTS]
#
# PYTHON names an interpreter that has the build requirements of pyproject.toml, cmake,
# ninja and the test requirements (default: python3); EA_SANITIZE_BUILD the build folder.
set -euo pipefail

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=${PYTHON:-python3}
sanitizers=${EA_SANITIZE:-address,undefined}
build=${EA_SANITIZE_BUILD:-${TMPDIR:-/tmp}/ea-sanitize-${UID}}
package=$build/package

# The parsers of foreign bytes and everything that touches raw memory.
selection=(
  tests/kernels tests/ops tests/test_tensor.py tests/test_interop_numpy.py
  tests/test_packing.py tests/test_adamw.py tests/test_attention_contract.py
  tests/test_fused_attention.py tests/test_sparse_embeddings.py
)
if [ $# -eq 0 ]; then
  cd "$repo"
  for path in "${selection[@]}"; do
    if [ -e "$path" ]; then set -- "$@" "$path"; fi
  done
  if [ $# -eq 0 ]; then echo "run_sanitizers: no tests to run" >&2; exit 1; fi
fi

site=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
bin=$(dirname "$("$python" -c 'import sys; print(sys.executable)')")
export PATH=$bin:$PATH
launcher=$(command -v ccache || true)
mkdir -p "$build"
cmake -S "$repo" -B "$build" -G Ninja \
  -DCMAKE_BUILD_TYPE=RelWithDebInfo \
  -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g1" \
  -DCMAKE_CXX_COMPILER_LAUNCHER="$launcher" \
  -DCMAKE_PREFIX_PATH="$site;$site/cmeel.prefix" \
  -Dpybind11_DIR="$("$python" -m pybind11 --cmakedir)" \
  -DPython_EXECUTABLE="$("$python" -c 'import sys; print(sys.executable)')" \
  -DEA_SANITIZE="$sanitizers" -DEA_CUDA=OFF -DCMAKE_INSTALL_PREFIX="$package" > "$build/cmake.log" \
  || { tail -n 40 "$build/cmake.log"; exit 1; }
cmake --build "$build" -j "$(nproc)" > "$build/build.log" 2>&1 \
  || { grep -E "error|warning" "$build/build.log" | head -n 40; exit 1; }

# A package made of links to our Python files and of the sanitized extension.
rm -rf "$package"
cmake --install "$build" > "$build/install.log"
extension=$(find "$package" -name '_core*.so' | head -n 1)
if [ -z "$extension" ]; then
  echo "run_sanitizers: no _core*.so was installed; see $build/install.log" >&2
  exit 1
fi
if [ "$(basename "$(dirname "$extension")")" != evolving_attention ]; then
  mkdir -p "$package/evolving_attention"
  find "$package" -maxdepth 1 -name '*.so*' -exec mv {} "$package/evolving_attention/" \;
fi
for entry in "$repo"/src/evolving_attention/*; do
  case $(basename "$entry") in
    *.so | *.so.* | __pycache__ | _core) ;;
    *) cp -r "$entry" "$package/evolving_attention/" ;;
  esac
done

# Peers are not under test, and would bring their own memory tricks.
for peer in torch transformers; do
  echo "raise ModuleNotFoundError('no $peer beside sanitizers', name='$peer')" \
    > "$package/$peer.py"
done

preload=$(g++ -print-file-name=libasan.so):$(g++ -print-file-name=libstdc++.so.6)
case $sanitizers in *address*) ;; *) preload=$(g++ -print-file-name=libubsan.so) ;; esac
cd "$repo"
echo "run_sanitizers: $sanitizers on: $*"
ASAN_OPTIONS=detect_leaks=0:abort_on_error=1:strict_string_checks=1 \
UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
PYTHONPATH=$package PYTHONMALLOC=malloc PYTHONDONTWRITEBYTECODE=1 LD_PRELOAD=$preload \
  "$python" -c 'import evolving_attention._core as c; print("under test:", c.__file__)'
ASAN_OPTIONS=detect_leaks=0:abort_on_error=1:strict_string_checks=1 \
UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
PYTHONPATH=$package PYTHONMALLOC=malloc PYTHONDONTWRITEBYTECODE=1 LD_PRELOAD=$preload \
  "$python" -m pytest -q -p no:cacheprovider -p no:xdist "$@"
