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
pass() { echo "$NAME: same: $*"; exit 0; }
fail() { echo "$NAME: different: $*"; exit 1; }
not_run() { echo "$NAME: not run: $*"; exit 3; }
