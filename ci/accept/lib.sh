# Shared by the acceptance scripts: builds, a place for files, one line at the end.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
NAME=$(basename "$0")
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
export SAMEBITS_DIR="$WORK/files" CARGO_TERM_COLOR=never
unset SAMEBITS_SIMD RAYON_NUM_THREADS || true

build() {
  if [ -z "${SAMEBITS_BIN:-}" ]; then
    cargo build --release --quiet
    SAMEBITS_BIN="$PWD/target/release/samebits"
  fi
}
# expect CODE COMMAND...: runs it, output to $WORK/out, fails unless it ends with that code.
expect() {
  local want=$1 got=0
  shift
  "$@" >"$WORK/out" 2>&1 || got=$?
  [ "$got" = "$want" ] || fail "exit $got instead of $want: $* ($(tail -n 3 "$WORK/out" | tr '\n' ' '))"
}
# says WORD...: the last output holds every word.
says() {
  local word
  for word in "$@"; do grep -qF -- "$word" "$WORK/out" || fail "the output lacks \"$word\": $(head -n 6 "$WORK/out" | tr '\n' ' ')"; done
}
# python_with_numpy: sets PYTHON to one with NumPy, and PyTorch where ci/python installed it.
python_with_numpy() {
  local place=${SAMEBITS_PYTHON_ENV:-${XDG_CACHE_HOME:-$HOME/.cache}/samebits/python}
  [ -x "$place/bin/python" ] || python3 -m venv "$place" || not_run "python3 -m venv does not work here"
  PYTHON=$place/bin/python
  "$PYTHON" -c 'import numpy' 2>/dev/null || "$PYTHON" -m pip install --quiet numpy || not_run "NumPy does not install"
}
# fuzz TARGET...: each for FUZZ_SECONDS (default 600), FUZZ_AT_A_TIME (default 2) at a time, from the seeds alone; sets RUNS
# to what was done.
fuzz() {
  command -v cargo-fuzz >/dev/null || cargo install --quiet cargo-fuzz || not_run "cargo-fuzz does not install"
  export RUSTC_BOOTSTRAP=1
  cargo fuzz build >"$WORK/build" 2>&1 || not_run "the fuzz targets do not build here: $(tail -n 2 "$WORK/build" | tr '\n' ' ')"
  RUNS=""
  local name jobs i
  while [ $# -gt 0 ]; do
    local now=("${@:1:${FUZZ_AT_A_TIME:-2}}")
    jobs=()
    for name in "${now[@]}"; do fuzz_one "$name" & jobs+=($!); done
    for i in "${!now[@]}"; do
      name=${now[$i]}
      wait "${jobs[$i]}" || fail "$name: $(tail -n 3 "$WORK/fuzz-$name" | tr '\n' ' ')"
      RUNS="$RUNS $name $(grep -oE 'Done [0-9]+ runs' "$WORK/fuzz-$name" | tail -n 1 | grep -oE '[0-9]+')"
    done
    shift "${#now[@]}"
  done
}
fuzz_one() {
  mkdir -p "$WORK/corpus/$1"
  local dict=()
  [ ! -f "fuzz/$1.dict" ] || dict=("-dict=fuzz/$1.dict")
  cargo fuzz run "$1" "$WORK/corpus/$1" "fuzz/seeds/$1" -- -max_total_time="${FUZZ_SECONDS:-600}" -rss_limit_mb=1024 -malloc_limit_mb=128 -timeout=10 "${dict[@]}" >"$WORK/fuzz-$1" 2>&1
}
# on_gpu PART...: parts of ci/gpu/cuda.sh, what they show in $WORK/cuda.txt; not run without a GPU.
on_gpu() {
  local code=0
  SAMEBITS_BIN="$SAMEBITS_BIN" ci/gpu/cuda.sh "$WORK" "$@" >/dev/null || code=$?
  [ "$code" != 3 ] || not_run "$(tail -n 1 "$WORK/cuda.txt")"
  [ "$code" = 0 ] || fail "$(grep -vE '^(exit 0|same|commit)' "$WORK/cuda.txt" | tail -n 3 | tr '\n' ' ')"
}
pass() { echo "$NAME: same: $*"; exit 0; }
fail() { echo "$NAME: different: $*"; exit 1; }
not_run() { echo "$NAME: not run: $*"; exit 3; }
