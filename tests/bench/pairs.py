# SPDX-License-Identifier: Apache-2.0
"""Inference beside training: as equals, and with training in the background.

A client is in the background by CUDA_MPS_CLIENT_PRIORITY. Natively there is no such thing.
"""

import contextlib
import statistics

from group import MODELS_PROGRAM, Group, soon
from rounds import alternate

ROUNDS = 2

INFERENCE = ("resnet", "decode", "serve_mlp", "serve_cnn")
TRAINING = ("mlp", "train_cnn", "train_resnet", "train_transformer")
# Each model is in two pairs.
PAIRS = (("resnet", "mlp"), ("resnet", "train_transformer"), ("decode", "train_resnet"),
         ("decode", "train_cnn"), ("serve_mlp", "train_transformer"), ("serve_mlp", "train_resnet"),
         ("serve_cnn", "train_cnn"), ("serve_cnn", "mlp"))


class Couple:
    """The processes of a way: inference, training as an equal, training in the background."""

    def __init__(self, way, stack):
        def start(env=None):
            return stack.enter_context(Group(way, 1, MODELS_PROGRAM, env))
        self.inference, self.training = start(), {"equal": start()}
        if way.background:
            self.training["background"] = start(way.background)
        for what in INFERENCE:
            self.inference.measure(what, 0)
        for group in self.training.values():
            for what in TRAINING:
                group.measure(what, 0)

    def alone(self, seconds):
        """{model: p99} of inference alone."""
        return {what: self.inference.measure(what, seconds)[0]["p99_us"] for what in INFERENCE}

    def together(self, served, trained, seconds):
        """p99 and the training's speed, beside each kind of training."""
        found = {}
        for kind, group in self.training.items():
            at = soon(2)
            self.inference.ask(served, seconds, at)
            group.ask(trained, seconds, at)
            found[kind, "p99"] = self.inference.answers()[0]["p99_us"]
            found[kind, "speed"] = group.answers()[0]["per_s"]
        return found


def divide(above, below):
    """The ratio of the medians of each way that has both."""
    return {way: [statistics.median(values) / statistics.median(below[way])]
            for way, values in above.items() if way in below}


def measure_pair(ways, couples, seconds, pair):
    """{ratio: {way: [value]}} of a pair, without p99 alone."""
    return alternate(ways, ROUNDS, lambda way: couples[way].together(*pair, seconds))


def measure(ways, options, results):
    seconds = 2 * options.seconds
    rows = {"equal": [], "background": [], "speed": []}
    with contextlib.ExitStack() as stack:
        couples = {way: Couple(way, stack) for way in ways}
        alone = alternate(ways, ROUNDS, lambda way: couples[way].alone(seconds))
        for served, trained in PAIRS:
            name = "%s, training %s" % (served, trained)
            with results.attempt(name):
                found = measure_pair(ways, couples, seconds, (served, trained))
                ratios = {kind: divide(found[kind, "p99"], alone[served])
                          for kind in ("equal", "background")}
                ratios["speed"] = divide(found["background", "speed"], found["equal", "speed"])
                results.add(name + ": p99 / alone", "", ratios["equal"])
                results.add(name + " in background: p99 / alone", "", ratios["background"])
                results.add(name + ": background / equal", "", ratios["speed"])
                for kind, ratio in ratios.items():
                    rows[kind].append(ratio)
    results.add("inference beside training, p99 / alone", "", means(rows["equal"]))
    results.add("inference beside background training, p99 / alone", "", means(rows["background"]))
    results.add("background training / plain sharing", "", means(rows["speed"]))


def means(ratios):
    """The mean of all pairs, of each way."""
    names = {way for ratio in ratios for way in ratio}
    return {way: [statistics.mean(ratio[way][0] for ratio in ratios if way in ratio)]
            for way in names}
