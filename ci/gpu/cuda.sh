#!/usr/bin/env bash
# What tier `chain` shows on a GPU: the contract's vectors, random products under three launch geometries, every case
# against the CPU's goldens, checkpoints crossing between CPU and GPU. Needs SAMEBITS_BIN, a driver and NVRTC; no Rust, no
# git. Writes what it showed below the folder given. SLOW=1 adds sizes M and L.
set -uo pipefail
cd "$(dirname "$0")/../.."
out=${1:?a folder for the evidence}
bin=${SAMEBITS_BIN:-$PWD/target/release/samebits}
export SAMEBITS_DIR=$(mktemp -d)
place=$(mktemp -d)
trap 'rm -rf "$SAMEBITS_DIR" "$place"' EXIT
failed=0
note() { local code=$?; echo "exit $code"; [ "$code" = 0 ] || failed=1; }
{
  echo "commit ${COMMIT:-unknown}"
  nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
  echo "== vectors and random products"
  "$bin" vectors --device 0 --products "${PRODUCTS:-500}" --multiprocessors 40,58,132; note
  echo "== cases, against the CPU's goldens"
  "$bin" test --device 0; note
  [ -z "${SLOW:-}" ] || { echo "== sizes M and L"; "$bin" test --device 0 --slow slow/; note; }
  echo "== a checkpoint of the CPU goes on on the GPU, and the other way round"
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
        "$bin" diff "$place/straight.jsonl" "$place/a.jsonl" | head -n 1; note
        "$bin" diff "$place/straight.jsonl" "$place/b.jsonl" | head -n 1; note
      done
    done
  done
  [ "$failed" = 0 ] && echo "all same" || echo "NOT ALL SAME"
} 2>&1 | sed "s#$place#<place>#g; s#$SAMEBITS_DIR#<files>#g" | tee "$out/cuda.txt"
tail -n 1 "$out/cuda.txt" | grep -q '^all same$'
