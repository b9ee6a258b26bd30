# Sourced by scripts that test another build of the extension.
#
# PYTHON names an interpreter that has the build requirements of pyproject.toml, cmake,
# ninja and the test requirements (default: python3).
repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=${PYTHON:-python3}
export CXX=${CXX:-g++} # the name used by pip builds, which is part of ccache's key

# configure FOLDER [CMAKE ARGUMENTS]: writes FOLDER/cmake.log.
configure() {
  local build=$1 site executable
  shift
  site=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
  executable=$("$python" -c 'import sys; print(sys.executable)')
  PATH=$(dirname "$executable"):$PATH
  export PATH
  mkdir -p "$build"
  cmake -S "$repo" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_CXX_COMPILER_LAUNCHER="$(command -v ccache || true)" \
    -DCMAKE_PREFIX_PATH="$site;$site/cmeel.prefix" \
    -Dpybind11_DIR="$("$python" -m pybind11 --cmakedir)" \
    -DPython_EXECUTABLE="$executable" "$@" \
    > "$build/cmake.log" || { tail -n 40 "$build/cmake.log"; exit 1; }
}

# build FOLDER [TARGET ...]: writes FOLDER/build.log.
build() {
  local build=$1
  shift
  cmake --build "$build" -j "$(nproc)" ${1:+--target "$@"} > "$build/build.log" 2>&1 \
    || { grep -E "error|warning" "$build/build.log" | head -n 40; exit 1; }
}

# test_package FOLDER PYTEST ARGUMENTS: tests the package in FOLDER.
test_package() {
  local folder=$1
  shift
  cd "$repo"
  PYTHONPATH=$folder "$python" -c \
    'import evolving_attention._core as c; print("under test:", c.__file__)'
  PYTHONPATH=$folder PYTHONDONTWRITEBYTECODE=1 \
    "$python" -m pytest -q -n "$(nproc)" --dist worksteal -p no:cacheprovider "$@"
}
