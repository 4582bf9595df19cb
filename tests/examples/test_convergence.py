"""The study of docs/convergence.md: its simulated ranks are real ones, it runs, and the document is what it found."""

import gzip
import json
import math
import struct
import sys

import numpy as np
import pytest
import torch
from project import ROOT, run
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

sys.path.insert(0, str(ROOT / "tests" / "bench"))
import convergence
import convergence_report
from convergence import RANK_BATCH, RANKS, RankBatchNorm, network

DOCS = ROOT / "docs"


def separate(model):
    """One rank's copy of a model, with torch's own batch normalisation."""
    layers = []
    for layer in model:
        if isinstance(layer, RankBatchNorm):
            normal = torch.nn.BatchNorm2d(len(layer.weight))
            normal.load_state_dict({"weight": layer.weight, "bias": layer.bias}, strict=False)
            layers.append(normal)
        else:
            layers.append(layer)
    return torch.nn.Sequential(*layers)


@pytest.fixture
def digits():
    images, labels = load_digits(return_X_y=True)
    return images.reshape(-1, 8, 8).astype(np.uint8), labels.astype(np.uint8)


def test_ranks_in_one_process_learn_as_separate_ones(digits):
    images = torch.from_numpy(digits[0][: RANKS * RANK_BATCH, None]).float() / 16
    labels = torch.from_numpy(digits[1][: RANKS * RANK_BATCH]).long()
    torch.manual_seed(1)
    together = network(8)
    # Weights that are not all alike, or the gradients of some would be zero for any implementation.
    for parameter in together.parameters():
        torch.nn.init.normal_(parameter, 1 if parameter.ndim == 1 else 0, 0.2)
    ranks = [separate(together) for _ in range(RANKS)]

    torch.nn.functional.cross_entropy(together(images), labels).backward()
    of_all = [parameter.grad.clone() for parameter in together.parameters()]
    sums = [torch.zeros_like(gradient) for gradient in of_all]
    for rank, model in enumerate(ranks):
        model.zero_grad()
        own = slice(rank * RANK_BATCH, (rank + 1) * RANK_BATCH)
        torch.nn.functional.cross_entropy(model(images[own]), labels[own]).backward()
        for total, parameter in zip(sums, model.parameters(), strict=True):
            total += parameter.grad / RANKS
    for found, wanted in zip(of_all, sums, strict=True):
        assert wanted.abs().max() > 0
        torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-6)

    for number, layer in enumerate(together):
        if isinstance(layer, RankBatchNorm):
            for rank, model in enumerate(ranks):
                torch.testing.assert_close(layer.means.view(RANKS, -1)[rank], model[number].running_mean)
                torch.testing.assert_close(layer.variances.view(RANKS, -1)[rank], model[number].running_var)
    together.eval()
    ranks[0].eval()
    torch.testing.assert_close(together(images), ranks[0](images), rtol=1e-4, atol=1e-5)


def write_idx(file, array):
    header = struct.pack(f">HBB{array.ndim}i", 0, 8, array.ndim, *array.shape)
    file.write_bytes(gzip.compress(header + array.tobytes()))


def test_study_runs(digits, tmp_path):
    images, labels = digits
    parts = train_test_split(images, labels, test_size=300, stratify=labels, random_state=1)
    for name, part in zip(("train-images", "t10k-images", "train-labels", "t10k-labels"), parts, strict=True):
        write_idx(tmp_path / f"{name}-idx{part.ndim}-ubyte.gz", part)
    results = tmp_path / "results.json"
    python, script = ROOT / "build" / "venv" / "bin" / "python", ROOT / "tests" / "bench" / "convergence.py"
    options = ["--seeds", "2", "--epochs", "1", "--samples", "1280", "--processes", "1"]
    printed = run(python, script, "--folder", tmp_path, "--results", results, *options, timeout=300)
    arms = json.loads(results.read_text())["arms"]
    assert list(arms) == [arm.name for arm in convergence.ARMS]
    for name, arm in arms.items():
        assert f"| {name} |" in printed
        for kind in ("rank 0", "mean of ranks"):
            assert all(0 < value < 100 for value in arm[kind]["accuracies"])
            assert all(math.isfinite(arm[kind][key]) for key in ("mean", "deviation", "difference", "low", "high"))


def test_document_and_plot_are_what_was_found():
    results = json.loads((DOCS / "convergence.json").read_text())
    text = (DOCS / "convergence.md").read_text()
    lines = [*convergence_report.table(results), "", *convergence_report.facts(results)]
    assert "\n".join(["", *lines, ""]) in text.partition(convergence_report.MARKERS[0])[2]
    assert (DOCS / "convergence.svg").read_text() == convergence_report.plot(results)


def test_node_is_within_half_a_point_of_a_global_shuffle_and_sorted_shards_are_not():
    """Of the committed study: what the documents say must be what it says."""
    results = json.loads((DOCS / "convergence.json").read_text())
    assert (results["seeds"], results["points"]) == (10, 0.5)
    for name, arm in results["arms"].items():
        reference = results["arms"][results["reference"]]["rank 0"]["accuracies"]
        assert arm["rank 0"] == {
            "accuracies": arm["rank 0"]["accuracies"],
            **convergence.summary(arm["rank 0"]["accuracies"], reference),
        }
        if "NODE" in name:
            assert arm["rank 0"]["within"]
        elif "ring off" in name:
            assert arm["rank 0"]["high"] < -0.5
