"""Trains in three ways, one after the other, prints one table of them, and checks what it claims."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from digits import TRAIN, VALIDATION, decodes, write_files

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[2] / "build" / "quickstart-data"
RANKS = 3
SAMPLES = len(TRAIN) + len(VALIDATION)

WAYS = {
    "rank_cache": ("(a) a cache for each rank", "torch's sampler"),
    "manager_dict": ("(b) a Manager().dict() for each", "VisCy's sampler"),
    "node_cache": ("(c) one ddpcache for all", "NodeSampler"),
}


def train(way: str, name: str) -> dict:
    """One training of three ranks by torchrun, and what came of it."""
    print(f"\n{', '.join(WAYS[way])}", flush=True)
    output = DATA / "results" / f"{name}.{way}"
    output.mkdir(parents=True)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={RANKS}"]
    command += [str(HERE / "train.py"), f"--way={way}", f"--name={name}"]
    command += [f"--data={DATA / 'png'}", f"--output={output}"]
    # One thread a rank, as torchrun would choose too, but with a warning.
    if subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}).returncode:
        sys.exit(f"the training failed: {' '.join(command)}")
    results = json.loads((output / "results.json").read_text())
    results["train"], results["validation"] = decodes(output / "train.log"), decodes(output / "validation.log")
    results["decoded"] = results["train"].total() + results["validation"].total()
    shutil.rmtree(output)
    return results


def hit_rates(result: dict) -> list[float]:
    return [1 - epoch["decoded"] / epoch["loaded"] for epoch in result["epochs"]]


def print_table(results: dict[str, dict]) -> None:
    rows: list[tuple[str, list[str]]] = [
        ("", [WAYS[way][0] for way in results]),
        ("", [WAYS[way][1] for way in results]),
        ("decodes in total", [f"{result['decoded']}" for result in results.values()]),
    ]
    for epoch, rates in enumerate(zip(*map(hit_rates, results.values()), strict=True), 1):
        rows.append((f"hit rate of epoch {epoch}", [f"{rate:.1%}" for rate in rates]))
    rows += [
        ("payload in caches", [f"{result['payload'] / 1e6:.1f} MB" for result in results.values()]),
        ("caches + private PSS *", [f"{result['memory'] / 1e6:.0f} MB" for result in results.values()]),
    ]
    for epoch, epochs in enumerate(zip(*(result["epochs"] for result in results.values()), strict=True), 1):
        rows.append((f"seconds of epoch {epoch}", [f"{one['seconds']:.1f}" for one in epochs]))
    rows.append(("accuracy", [f"{result['epochs'][-1]['accuracy']:.1%}" for result in results.values()]))

    print(f"\n{SAMPLES} samples, {RANKS} ranks, 4 workers for training and 4 for validation in each rank")
    for head, cells in rows:
        print(f"{head:22}" + "".join(f"{cell:>34}" for cell in cells))
    print("* what the cache files occupy in /dev/shm, each once, plus Pss - Pss_Shmem of every process")


def check(results: dict[str, dict], name: str) -> list[str]:
    """The claims that do not hold."""
    per_rank, ours = results["rank_cache"], results["node_cache"]
    claims = {
        "(c) decodes each training sample exactly once": ours["train"] == Counter(range(len(TRAIN))),
        "(c) decodes each validation sample exactly once": ours["validation"] == Counter(range(len(VALIDATION))),
        "(c) hits at every look-up from epoch 2 on": set(hit_rates(ours)[1:]) == {1.0},
        "(a) decodes more, and holds more": per_rank["decoded"] > SAMPLES and per_rank["payload"] > ours["payload"],
        "(a) takes more memory": per_rank["memory"] > ours["memory"],
        "validation judges each sample once in each epoch": all(
            epoch["judged"] == len(VALIDATION) for result in results.values() for epoch in result["epochs"]
        ),
        "the network learns": all(result["epochs"][-1]["accuracy"] > 0.6 for result in results.values()),
        "no cache is left in /dev/shm": not list(Path("/dev/shm").glob(f"ddpcache.{os.getuid()}.{name}*")),
    }
    print()
    for claim, holds in claims.items():
        print(f"{'checked' if holds else 'WRONG':8} {claim}")
    return [claim for claim, holds in claims.items() if not holds]


def main() -> int:
    begin = time.monotonic()
    write_files(DATA / "png")
    name = f"quickstart.{os.getpid()}"
    results = {way: train(way, name) for way in WAYS}
    print_table(results)
    failed = check(results, name)
    print(f"\n{time.monotonic() - begin:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
