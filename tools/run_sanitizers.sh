#!/usr/bin/env bash
# Build the extension with ASan and UBSan in its own folder and run a short selection;
# with EA_SANITIZE=thread, instrument what threads share and run the threaded tests.
#
#   tools/run_sanitizers.sh [PYTEST ARGUMENTS]
#
# EA_SANITIZE_BUILD is the build folder, EA_SANITIZE the sanitizers; PYTHON is the
# interpreter (see tools/build_variant.sh).
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/build_variant.sh"

sanitizers=${EA_SANITIZE:-address,undefined}
folder=${EA_SANITIZE_BUILD:-${TMPDIR:-/tmp}/ea-sanitize-${UID}}
package=$folder/package

if [ "$sanitizers" = thread ]; then
  rooms="runtime;tensor;kernels;kernels/cpu;kernels/cpu/avx2;autograd;optim"
  unused=
  export EA_MAX_ISA=avx2
  # TSan does not support fork in a process with several threads.
  selection=(tests/test_threads.py tests/test_loader.py -k "not fork")
else
  rooms=
  # Vector kernels that this machine does not run are not sanitized.
  unused=kernels/cpu/avx512
  if [ "${EA_MAX_ISA:-}" != avx2 ] && grep -q -m 1 avx512f /proc/cpuinfo; then
    unused=kernels/cpu/avx2
  fi
  # Parsers of untrusted bytes, and everything that touches raw memory.
  selection=(
    tests/kernels/test_agreement.py tests/ops tests/test_tensor.py
    tests/test_interop_numpy.py tests/test_packing.py tests/test_adamw.py
    tests/test_attention_contract.py tests/test_fused_attention.py
    tests/test_sparse_embeddings.py
  )
fi
[ $# -gt 0 ] || set -- "${selection[@]}"

# Sources without sanitizers compile as in a release, so that ccache has them.
configure "$folder" -DEA_SANITIZE="$sanitizers" -DEA_SANITIZE_ROOMS="$rooms" \
  -DEA_SANITIZE_NOT="$unused" -DEA_CUDA=OFF \
  -DCMAKE_INSTALL_PREFIX="$package"
build "$folder"

# Make a package of our Python files and the sanitized extension.
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

# Slopes at one sampled element touch the same memory as slopes at all elements.
export EA_TEST_SAMPLED=1

# Peers are not under test, and manage memory in their own ways.
for peer in torch transformers; do
  echo "raise ModuleNotFoundError('no $peer beside sanitizers', name='$peer')" \
    > "$package/$peer.py"
done

case $sanitizers in
  *address*) library=libasan.so ;;
  thread) library=libtsan.so ;;
  *) library=libubsan.so ;;
esac
preload=$(g++ -print-file-name=$library):$(g++ -print-file-name=libstdc++.so.6)
echo "run_sanitizers: $sanitizers on: $*"
export ASAN_OPTIONS=detect_leaks=0:abort_on_error=1:strict_string_checks=1
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 PYTHONMALLOC=malloc
# TSan cannot see that glibc frees a thread's storage after its destructors ran.
echo 'race:_dl_deallocate_tls' > "$folder/suppressions"
rm -f "$folder"/races.*
export TSAN_OPTIONS=suppressions=$folder/suppressions:log_path=$folder/races
(LD_PRELOAD=$preload test_package "$package" "$@")
if [[ $library = libasan.so ]]; then
  ASAN_OPTIONS=detect_leaks=1 LSAN_OPTIONS=exitcode=0 LD_PRELOAD=$preload PYTHONPATH=$package \
    "$python" "$repo/tools/check_leaks.py"
fi
if compgen -G "$folder/races.*" > /dev/null; then
  cat "$folder"/races.*
  exit 1
fi
