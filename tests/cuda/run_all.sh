#!/usr/bin/env bash
# On a machine with an NVIDIA GPU: build this tree with its CUDA kernels, without network,
# and check and measure what needs a GPU. Each part ends within ten minutes.
#
#   tests/cuda/run_all.sh [PART ...]     all parts, or these:
#     build        the extension with CUDA, for this GPU, into src/
#     kernels      every op on the GPU against the reference kernels
#     gradients    gradients of models, a fine-tuning run against the CPU
#     parity       losses, gradients and logits against torch and transformers
#     determinism  20 runs, the same bits
#     several      two processes on two GPUs by NCCL; skipped where there is one
#     sanitizer    compute-sanitizer: memcheck, racecheck, initcheck, synccheck
#     benchmark    the training step against PyTorch, CoLA against transformers; JSON
#
# Exit code: 0 if all parts passed, 1 if one failed, 77 where there is no GPU.
#
# PYTHON   interpreter with the run-time and test requirements (default: python3)
# WHEELS   folder of wheels of what it lacks, installed beside it first: beside PyTorch and
#          pytest that is most often onednn-devel-cpu-gomp, onednn-cpu-gomp, cmeel-eigen and
#          pybind11 (pip download --no-deps -d WHEELS NAME==VERSION; 45 MB)
# OUT      folder for logs and results (default: a new one, which is named at the end)
set -euo pipefail

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
python=${PYTHON:-python3}
build=${EA_CUDA_BUILD:-${TMPDIR:-/tmp}/ea-cuda-build-${UID}}
added=${TMPDIR:-/tmp}/ea-cuda-added-${UID} # a prefix for WHEELS
parts=(build kernels gradients parity determinism several sanitizer benchmark)
limit=590 # seconds of a part

install_wheels() {
  [ -n "${WHEELS:-}" ] || return 0
  "$python" -m pip install -q --no-index --no-deps --no-compile --ignore-installed \
    --prefix "$added" "$WHEELS"/*.whl
}

site_of_added() {
  "$python" -c 'import sys; print(*sys.version_info[:2], sep=".")' \
    | sed "s|.*|$added/lib/python&/site-packages|"
}

# sm_90 has instructions of its own, which the kernels' target names
architecture() {
  local found
  found=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)
  [ "$found" = 90 ] && found=90a
  echo "$found"
}

build() {
  mkdir -p "$build"
  cmake -S "$repo" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -Dpybind11_DIR="$("$python" -m pybind11 --cmakedir)" \
    -DPython_EXECUTABLE="$("$python" -c 'import sys; print(sys.executable)')" \
    -DEA_IN_PLACE=ON -DEA_CUDA=ON -DEA_CUDA_ARCHITECTURES="$(architecture)"
  cmake --build "$build" -j "$(nproc)"
  "$python" -c 'import evolving_attention as ea; print(ea.devices())
assert "cuda:0" in ea.devices(), ea.doctor(run_self_test=False)["devices"]'
}

tests() { "$python" -m pytest -q -p no:cacheprovider "$@"; }

kernels() { tests tests/cuda/test_ops.py tests/cuda/test_device.py -n 8; }
gradients() {
  tests tests/cuda/test_cuda_models.py tests/cuda/test_training.py \
    tests/cuda/test_training_series.py -k "not bits"
}
parity() { tests tests/cuda/test_cuda_parity.py; }
determinism() {
  tests tests/cuda/test_cuda_models.py tests/cuda/test_training_series.py -k bits
}
several() { tests tests/cuda_host/test_nccl.py; }

# One or two odd shapes of each op in each type.
sanitizer() {
  local tool seconds found=0
  export EA_TEST_CASES='h2_3_0_2_by|h20_9_4|69x131|5x3_7|131x517x33|69x3001|17x3k3d4'
  for tool in memcheck racecheck initcheck synccheck; do
    echo "::: $tool"
    seconds=90
    [ "$tool" = racecheck ] && seconds=300
    timeout "$seconds" compute-sanitizer --tool "$tool" --error-exitcode 9 \
      --target-processes all "$python" -m pytest -q -p no:cacheprovider \
      tests/cuda/test_ops.py || found=1
  done
  return "$found"
}

benchmark() {
  local data=${EVOLVING_ATTENTION_DATA:-}/glue/CoLA
  "$python" -m benchmarks.gpu
  cp benchmarks/results/gpu-*.json "$OUT"
  if [ ! -d "$data" ]; then
    echo "CoLA: not measured: EVOLVING_ATTENTION_DATA names no folder with glue/CoLA"
    return
  fi
  "$python" -m benchmarks.cola --data "$data" --device cuda --dtype bfloat16
  cp benchmarks/results/cola-gpu-*.json "$OUT"
}

# part NAME: run it, keep its log, remember how it ended
part() {
  local began=$SECONDS code=0
  echo "::: $1"
  timeout -k 5 "$limit" bash "$repo/tests/cuda/run_all.sh" --inside "$1" 2>&1 \
    | tee "$OUT/$1.log" | tail -n 25 || code=${PIPESTATUS[0]}
  printf '%-12s %4d s  %s\n' "$1" $((SECONDS - began)) \
    "$([ "$code" = 0 ] && echo ok || echo "FAILED ($code)")" >> "$OUT/summary"
  [ "$code" = 0 ]
}

main() {
  PYTHONPATH=$repo/src:$(site_of_added)${PYTHONPATH:+:$PYTHONPATH}
  export PYTHONPATH
  export PATH=$added/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
  cd "$repo"
  if [ "${1:-}" = --inside ]; then
    "$2"
    return
  fi
  local wanted=("$@") name failed=0
  [ $# -gt 0 ] || wanted=("${parts[@]}")
  for name in "${wanted[@]}"; do
    if [[ " ${parts[*]} " != *" $name "* ]]; then
      echo "run_all: no part is called $name; expected one of: ${parts[*]}"
      return 2
    fi
  done
  local found
  if ! found=$(nvidia-smi -L 2>&1); then
    echo "run_all: not run: no GPU (${found##*: })"
    return 77
  fi
  echo "$found"
  OUT=${OUT:-$(mktemp -d "${TMPDIR:-/tmp}/ea-cuda.XXXXXX")}
  export OUT
  mkdir -p "$OUT"
  : > "$OUT/summary"
  install_wheels
  for name in "${wanted[@]}"; do part "$name" || failed=1; done
  echo "::: summary (logs: $OUT)"
  cat "$OUT/summary"
  return "$failed"
}

main "$@"
