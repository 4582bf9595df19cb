"""train: several processes learn to read handwritten digits, from samples that all of them share.

    python cache_digits.py --file digits.csv
    python train.py digits.csv [NAME [RANKS]]

The program starts RANKS (2) processes, and tells each its place as torchrun would. Each sample is read from the file by
one of them, once, and found by the others; where another program has the digits cached under this NAME already
(`python cache_digits.py NAME`), they are all found. The model is a softmax regression, trained by gradient descent on
digits 0 to 1436, with gradients averaged over the ranks at each step as DDP does; the rest judge it. With torch, see
quickstart.
"""

import argparse
import multiprocessing
import multiprocessing.connection
import os
import sys

import ddpcache
import numpy as np

DIGITS, TRAINED = 1797, 1437
PIXELS, CLASSES = 64, 10
EPOCHS, BATCH, RATE = 5, 32, np.float32(0.5)


class Digits:
    """The data set: a cache, and the file that it is filled from."""

    def __init__(self, file, name):
        self.file = file
        self.cache = ddpcache.Cache(name, length=DIGITS, fingerprint="digits 1", capacity="4MiB")
        self.lines = []
        self.decoded = self.used = 0

    def decode(self, index):
        """Line `index` of the file: 64 pixels and the digit."""
        self.decoded += 1
        if not self.lines:
            with open(self.file) as file:
                self.lines = file.readlines()
        *pixels, label = np.array(self.lines[index].split(","), dtype=float).astype(np.int64)
        return {"image": np.array(pixels, np.uint8).reshape(8, 8), "label": np.array(label)}

    def batch(self, indices):
        """Pixels with a 1 behind them for the bias, 0 to 1, and what digits they are."""
        self.used += len(indices)
        samples = [self.cache.get_or_load(index, self.decode) for index in indices]
        inputs = np.ones((len(indices), PIXELS + 1), np.float32)
        for row, sample in zip(inputs, samples, strict=True):
            row[:PIXELS] = sample["image"].reshape(-1) / np.float32(16)
        return inputs, np.array([int(sample["label"]) for sample in samples], np.int64)


class Group:
    """The ranks, and what they add up, in memory that they share."""

    def __init__(self, context, ranks):
        self.ranks = ranks
        self.barrier = context.Barrier(ranks)
        self.memory = context.RawArray("f", ranks * ((PIXELS + 1) * CLASSES + 1))

    def sum(self, rank, numbers):
        """Each number's sum over all ranks, in the order of ranks, so that it is the same in every run."""
        parts = np.frombuffer(self.memory, np.float32).reshape(self.ranks, -1)
        parts[rank, : len(numbers)] = numbers
        self.barrier.wait()
        total = parts[:, : len(numbers)].sum(axis=0)
        self.barrier.wait()
        return total


def probabilities(weights, inputs):
    sums = inputs @ weights
    powers = np.exp(sums - sums.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def train_epoch(digits, sampler, group, weights):
    """One epoch; the mean loss."""
    loss = samples = 0
    indices = list(sampler)
    for first in range(0, len(indices), BATCH):
        inputs, labels = digits.batch(indices[first : first + BATCH])
        errors = probabilities(weights, inputs)
        rows = np.arange(len(labels))
        own_loss = -np.log(errors[rows, labels]).sum()
        errors[rows, labels] -= 1
        total = group.sum(sampler.topology.rank, np.append(inputs.T @ errors, own_loss))
        seen = len(labels) * group.ranks
        weights -= RATE * total[:-1].reshape(weights.shape) / np.float32(seen)
        loss, samples = loss + total[-1], samples + seen
    return loss / samples


def judge(digits, sampler, group, weights):
    """The share of the digits kept back that the model reads right. Each counts once, though some are dealt twice."""
    inputs, labels = digits.batch([TRAINED + index for index in sampler.read(0, sampler.real_size).tolist()])
    right = (probabilities(weights, inputs).argmax(axis=1) == labels).sum()
    return group.sum(sampler.topology.rank, [right])[0] / (DIGITS - TRAINED)


def train(rank, file, name, group):
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
    os.environ |= {"WORLD_SIZE": str(group.ranks), "LOCAL_WORLD_SIZE": str(group.ranks)}
    digits = Digits(file, name)
    sampler = ddpcache.Sampler(TRAINED, seed=7)
    judged = ddpcache.Sampler(DIGITS - TRAINED, shuffle=False)
    weights = np.zeros((PIXELS + 1, CLASSES), np.float32)
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        loss = train_epoch(digits, sampler, group, weights)
        accuracy = judge(digits, judged, group, weights)
        if rank == 0:
            print(f"epoch {epoch + 1}/{EPOCHS}  loss {loss:.4f}  accuracy {accuracy:.1%}", flush=True)
    decoded, used = group.sum(rank, [digits.decoded, digits.used])
    if rank == 0:
        print(f"decoded {decoded:.0f}, found {used - decoded:.0f}")
    digits.cache.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="of digits")
    parser.add_argument("name", nargs="?", default="digits", help="of the cache")
    parser.add_argument("ranks", nargs="?", type=int, default=2)
    arguments = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    group = Group(context, arguments.ranks)
    processes = [
        context.Process(target=train, args=(rank, arguments.file, arguments.name, group))
        for rank in range(arguments.ranks)
    ]
    for process in processes:
        process.start()
    # Where one has failed, the others would wait for it.
    while (running := [process for process in processes if process.is_alive()]) and not any(
        process.exitcode for process in processes
    ):
        multiprocessing.connection.wait([process.sentinel for process in running])
    for process in processes:
        process.terminate()
        process.join()
    return 1 if any(process.exitcode for process in processes) else 0


if __name__ == "__main__":
    sys.exit(main())
