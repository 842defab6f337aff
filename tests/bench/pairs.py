# SPDX-License-Identifier: Apache-2.0
"""Inference beside training: as equals, and with training in the background.

A client is in the background by CUDA_MPS_CLIENT_PRIORITY. Natively there is no such thing.
"""

import contextlib
import statistics

from group import MODELS_PROGRAM, Group, soon
from rounds import alternate, divide

ROUNDS = 2

INFERENCE = ("resnet", "decode", "serve_mlp", "serve_cnn")
TRAINING = ("mlp", "train_cnn", "train_resnet", "train_transformer")
# Each model is in two pairs.
PAIRS = (("resnet", "mlp"), ("resnet", "train_transformer"), ("decode", "train_resnet"),
         ("decode", "train_cnn"), ("serve_mlp", "train_transformer"), ("serve_mlp", "train_resnet"),
         ("serve_cnn", "train_cnn"), ("serve_cnn", "mlp"))
# Beside kernels that fill the GPU. Not in the means, which are of the eight pairs.
FULL_PAIRS = (("resnet", "gemm"), ("decode", "gemm"))
# A client in the background on half the SMs, in addition: only in these pairs.
CAPPED = {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50"}

# The rows of ratios_of(), of each pair and of all.
PAIR_ROWS = (": p99 / alone", " in background: p99 / alone", ": background / equal")
CAPPED_ROWS = (" in background on half the SMs: p99 / alone", ": background on half the SMs / equal")
MEAN_ROWS = ("inference beside training, p99 / alone",
             "inference beside background training, p99 / alone",
             "background training / plain sharing")


class Couple:
    """The processes of a way: inference, training as an equal, training in the background."""

    def __init__(self, way, stack):
        def start(env=None):
            return stack.enter_context(Group(way, 1, MODELS_PROGRAM, env))
        self.inference, self.training = start(), {"equal": start()}
        if way.background:
            self.training["background"] = start(way.background)
            self.training["capped"] = start(dict(way.background, **CAPPED))
        self.make_models()

    def make_models(self):
        """In all processes at the same time."""
        wanted = [(self.inference, INFERENCE)]
        wanted += [(group, TRAINING + ("gemm",)) for group in self.training.values()]
        for group, models in wanted:
            for what in models:
                group.ask(what, 0, 0)
        for group, models in wanted:
            for _ in models:
                group.answers()

    def together(self, served, trained, seconds):
        """p99 alone, then beside each kind of training, with the training's speed."""
        found = {"alone": self.inference.measure(served, seconds)[0]["p99_us"]}
        for kind, group in self.training.items():
            if kind == "capped" and (served, trained) not in FULL_PAIRS:
                continue
            at = soon(2)
            self.inference.ask(served, seconds, at)
            group.ask(trained, seconds, at)
            found[kind, "p99"] = self.inference.answers()[0]["p99_us"]
            found[kind, "speed"] = group.answers()[0]["per_s"]
        return found


def ratios_of(found):
    """What the rows of a pair tell, each as {way: [value]}."""
    return (divide(found["equal", "p99"], found["alone"]),
            divide(found["background", "p99"], found["alone"]),
            divide(found["background", "speed"], found["equal", "speed"]))


def capped_ratios_of(found):
    return (divide(found["capped", "p99"], found["alone"]),
            divide(found["capped", "speed"], found["equal", "speed"]))


def means(ratios):
    """The mean of all pairs, of each way."""
    names = {way for ratio in ratios for way in ratio}
    return {way: [statistics.mean(ratio[way][0] for ratio in ratios if way in ratio)]
            for way in names}


def measure(ways, options, results):
    seconds = 2 * options.seconds
    told = []
    with contextlib.ExitStack() as stack:
        couples = {way: Couple(way, stack) for way in ways}
        for pair in PAIRS + FULL_PAIRS:
            name = "%s, training %s" % pair
            with results.attempt(name):
                found = alternate(
                    ways, ROUNDS, lambda way, pair=pair: couples[way].together(*pair, seconds))
                ratios = ratios_of(found)
                for row, ratio in zip(PAIR_ROWS, ratios):
                    results.add(name + row, "", ratio)
                if pair in PAIRS:
                    told.append(ratios)
                for row, ratio in zip(CAPPED_ROWS, capped_ratios_of(found)):
                    if ratio:
                        results.add(name + row, "", ratio)
    for row, ratios in zip(MEAN_ROWS, zip(*told)):
        results.add(row, "", means(ratios))
