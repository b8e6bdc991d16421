#!/usr/bin/env bash
# What any-command can only show on a GPU: the recorder's CUDA tests, and audits of a PyTorch program with and without
# deterministic algorithms. Needs PyTorch with CUDA and SAMEBITS_BIN; writes what it showed below the folder given.
set -uo pipefail
cd "$(dirname "$0")/../.."
out=${1:?a folder for the evidence}
export SAMEBITS_BIN=${SAMEBITS_BIN:-$PWD/target/release/samebits} PYTHONPATH=$PWD/python
export SAMEBITS_DIR=$(mktemp -d)
place=$(mktemp -d)
cp ci/gpu/train_atomics.py "$place"
{
  echo "commit ${COMMIT:-unknown}"
  nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
  python3 -c 'import sys, torch; print("python", sys.version.split()[0], "torch", torch.__version__, "cuda", torch.version.cuda)'
  echo "== the recorder's tests"
  (cd python/tests && python3 -m unittest -v test_cuda test_fingerprint test_silent test_record 2>&1)
  cd "$place"
  echo "== factors"
  "$SAMEBITS_BIN" audit --factors
  echo "== atomics: 8 processes"
  "$SAMEBITS_BIN" audit -n 8 --jobs 4 --output model.pt -- python3 train_atomics.py model.pt
  echo "exit $?"
  echo "== deterministic algorithms: 8 processes"
  CUBLAS_WORKSPACE_CONFIG=:4096:8 "$SAMEBITS_BIN" audit -n 8 --jobs 4 --output model.pt -- python3 train_atomics.py model.pt deterministic
  echo "exit $?"
  echo "== two traces of the first program"
  for i in a b; do SAMEBITS_TRACE=$place/$i.jsonl python3 train_atomics.py $i.pt; done
  "$SAMEBITS_BIN" validate a.jsonl
  "$SAMEBITS_BIN" diff a.jsonl b.jsonl
  echo "exit $?"
} 2>&1 | sed "s#$(python3 -c 'import os, torch; print(os.path.dirname(os.path.dirname(torch.__file__)))')#<site-packages>#g; s#$place#<place>#g; s#$SAMEBITS_DIR#<files>#g" | tee "$out/any-command.txt"
