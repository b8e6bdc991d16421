#!/usr/bin/env bash
# cuda.sh FOLDER [PART...]: what tier `chain` shows on a GPU. Parts: vectors, products (random, under three launch
# geometries), cases (against the CPU's goldens), sizes (M and L), checkpoints (crossing between CPU and GPU); all by
# default. Needs SAMEBITS_BIN, a driver and NVRTC; no Rust, no git. What it showed is written to FOLDER/cuda.txt. Ends with 0
# when all is same, 1 when not, 3 without a GPU.
set -uo pipefail
cd "$(dirname "$0")/../.."
out=${1:?a folder for the evidence}
shift
bin=${SAMEBITS_BIN:-$PWD/target/release/samebits}
export SAMEBITS_DIR=$(mktemp -d)
place=$(mktemp -d)
trap 'rm -rf "$SAMEBITS_DIR" "$place"' EXIT
failed=0
note() { local code=$?; echo "exit $code"; [ "$code" = 0 ] || failed=1; }

vectors() { "$bin" vectors --device 0; note; }
products() { "$bin" vectors --device 0 --products "${PRODUCTS:-500}" --multiprocessors 40,58,132; note; }
cases() { "$bin" test --device 0; note; }
sizes() { "$bin" test --device 0 --slow slow/; note; }
checkpoints() {
  local case cut first on back
  for case in eurusd/eurusd-1h-2017-tiny googl/googl-1d-s; do
    "$bin" run "$case" --trace "$place/straight.jsonl" >/dev/null; note
    for cut in 7 23; do
      for first in cpu gpu; do
        rm -rf "$place/cut"
        on=(); back=(--device 0)
        [ "$first" = cpu ] || { on=(--device 0); back=(); }
        "$bin" run "$case" ${on[@]+"${on[@]}"} --trace "$place/a.jsonl" --checkpoint "$place/cut" --checkpoint-every "$cut" >/dev/null || failed=1
        "$bin" run "$case" ${back[@]+"${back[@]}"} --trace "$place/b.jsonl" --resume "$place/cut" >/dev/null || failed=1
        echo "$case, checkpoint of the $first, every $cut cycles"
        "$bin" diff "$place/straight.jsonl" "$place/a.jsonl" >"$place/diff"; note; head -n 1 "$place/diff"
        "$bin" diff "$place/straight.jsonl" "$place/b.jsonl" >"$place/diff"; note; head -n 1 "$place/diff"
      done
    done
  done
}

code=0
"$bin" vectors --device 0 >"$place/first" 2>&1 || code=$?
if [ "$code" = 3 ]; then
  tail -n 1 "$place/first" | tee "$out/cuda.txt"
  exit 3
fi
[ $# -gt 0 ] || set -- vectors products cases sizes checkpoints
{
  echo "commit ${COMMIT:-unknown}"
  nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
  for part in "$@"; do
    case $part in
      vectors | products | cases | sizes | checkpoints) echo "== $part"; "$part" ;;
      *) echo "$part: no such part; one of: vectors, products, cases, sizes, checkpoints"; failed=1 ;;
    esac
  done
  [ "$failed" = 0 ] && echo "all same" || echo "NOT ALL SAME"
} 2>&1 | sed "s#$place#<place>#g; s#$SAMEBITS_DIR#<files>#g" | tee "$out/cuda.txt"
tail -n 1 "$out/cuda.txt" | grep -q '^all same$'
