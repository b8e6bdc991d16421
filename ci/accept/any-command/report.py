"""Counts words by a score, in plain Python. Usage: report.py OUTPUT.json"""

import json
import sys

TEXT = "the quick brown fox jumps over the lazy dog while the other dogs sleep in the warm sun of may"


def score(words):
    total = 0.0
    for word in words:
        total = 0.9 * total + len(word) / 3
    return total


words = set(TEXT.split())
with open(sys.argv[1], "w") as file:
    json.dump({"words": len(words), "score": score(words)}, file)
