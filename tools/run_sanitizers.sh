#!/usr/bin/env bash
# Build the extension with ASan and UBSan, in its own folder, and run a short selection.
#
#   tools/run_sanitizers.sh [PYTEST ARGUMENTS]
#
# EA_SANITIZE_BUILD names the build folder, EA_SANITIZE the sanitizers; PYTHON the
# interpreter (see tools/build_variant.sh).
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/build_variant.sh"

sanitizers=${EA_SANITIZE:-address,undefined}
folder=${EA_SANITIZE_BUILD:-${TMPDIR:-/tmp}/ea-sanitize-${UID}}
package=$folder/package

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

# Not Release: assertions are on.
configure "$folder" -DCMAKE_BUILD_TYPE=RelWithDebInfo \
  -DCMAKE_CXX_FLAGS_RELWITHDEBINFO= -DEA_SANITIZE="$sanitizers" -DEA_CUDA=OFF \
  -DCMAKE_INSTALL_PREFIX="$package"
build "$folder"

# A package made of links to our Python files and of the sanitized extension.
rm -rf "$package"
cmake --install "$folder" > "$folder/install.log"
extension=$(find "$package" -name '_core*.so' | head -n 1)
if [ -z "$extension" ]; then
  echo "run_sanitizers: no _core*.so was installed; see $folder/install.log" >&2
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
echo "run_sanitizers: $sanitizers on: $*"
export ASAN_OPTIONS=detect_leaks=0:abort_on_error=1:strict_string_checks=1
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 PYTHONMALLOC=malloc
LD_PRELOAD=$preload test_package "$package" "$@"
