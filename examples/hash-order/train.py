"""Logistic regression over the words of short texts; leaves out/weights.json."""

import json
import math
import os

TEXTS = [
    ("cheap pills and cheap watches shipped today", 1),
    ("minutes of the meeting about the quarterly report", 0),
    ("win a free watch and free pills this week", 1),
    ("the report and the slides for the meeting this week", 0),
    ("free shipping today on all cheap offers", 1),
    ("please review the slides about the new offers", 0),
]


def features(text):
    return set(text.split())


def train(epochs=200, rate=0.3):
    weights = {}
    for _ in range(epochs):
        for text, label in TEXTS:
            words = features(text)
            score = 0.0
            for word in words:
                score += weights.get(word, 0.1 / len(word))
            error = label - 1 / (1 + math.exp(-score))
            for word in words:
                weights[word] = weights.get(word, 0.1 / len(word)) + rate * error / len(words)
    return weights


os.makedirs("out", exist_ok=True)
with open("out/weights.json", "w") as file:
    json.dump(train(), file, indent=1, sort_keys=True)
