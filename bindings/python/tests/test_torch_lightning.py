"""Lightning leaves the samplers alone, and each rank is given its part, not a part of its part."""

import json
import os
import subprocess
import sys
from pathlib import Path

import lightning
import pytest
import torch
from ddpcache.torch import DistributedSampler, NodeBatchSampler, NodeSampler, ShardedDistributedSampler
from torch.utils.data import DataLoader, TensorDataset

RANKS, SAMPLES = 2, 24


class Counting(lightning.LightningModule):
    """Records which samples it is given in each epoch."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.seen = []

    def on_train_epoch_start(self):
        self.seen.append([])

    def training_step(self, batch, _):
        self.seen[-1] += batch[0].int().tolist()
        return (self.weight * batch[0]).sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.0)


def make_loader(kind, data):
    if kind == "batch":
        return DataLoader(data, batch_sampler=NodeBatchSampler(NodeSampler(data), 4))
    cls = {"node": NodeSampler, "torch": DistributedSampler, "viscy": ShardedDistributedSampler}[kind]
    return DataLoader(data, batch_size=4, sampler=cls(data))


def fit(kind, use_distributed_sampler):
    """One rank of two, under Lightning and the environment of torchrun."""
    data = TensorDataset(torch.arange(float(SAMPLES)))
    loader = make_loader(kind, data)
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=RANKS,
        strategy="ddp",
        max_epochs=2,
        use_distributed_sampler=use_distributed_sampler,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    module = Counting()
    try:
        trainer.fit(module, loader)
    except TypeError as error:
        return {"error": str(error)}
    kept = trainer.train_dataloader.batch_sampler if kind == "batch" else trainer.train_dataloader.sampler
    ours = loader.batch_sampler if kind == "batch" else loader.sampler
    return {"seen": module.seen, "kept": kept is ours, "expected": [epoch_of(ours, epoch) for epoch in range(2)]}


def epoch_of(sampler, epoch):
    sampler.set_epoch(epoch)
    return [index for item in sampler for index in (item if isinstance(item, list) else [item])]


@pytest.fixture(scope="module")
def fits(tmp_path_factory):
    """What both ranks report of each kind of sampler, with Lightning told to leave it alone and not."""
    folder = tmp_path_factory.mktemp("fits")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(RANKS)]
    done = subprocess.run(
        [*command, __file__, str(folder)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    ranks = [json.loads((folder / str(rank)).read_text()) for rank in range(RANKS)]
    return {case: [rank[case] for rank in ranks] for case in ranks[0]}


@pytest.mark.parametrize("case", ["node False", "node True", "torch False", "torch True", "viscy False", "viscy True"])
def test_sampler_stays_and_each_rank_gets_its_12_of_24_samples(fits, case):
    for result in fits[case]:
        assert result["kept"]
        assert result["seen"] == result["expected"]
        assert [len(epoch) for epoch in result["seen"]] == [12, 12]
        assert result["seen"][0] != result["seen"][1]
    for epoch in range(2):
        assert sorted(fits[case][0]["seen"][epoch] + fits[case][1]["seen"][epoch]) == list(range(SAMPLES))


def test_batch_sampler_stays_where_lightning_is_told_to_leave_it(fits):
    for result in fits["batch False"]:
        assert result["kept"]
        assert result["seen"] == result["expected"]
        assert [len(epoch) for epoch in result["seen"]] == [12, 12]


def test_batch_sampler_that_lightning_would_refill_is_an_error_that_names_the_option(fits):
    for result in fits["batch True"]:
        assert "use_distributed_sampler=False" in result["error"]
        assert "DistributedSampler, which is no sampler of ddpcache.torch" in result["error"]


def rank_main(folder):
    torch.distributed.init_process_group("gloo")
    results = {f"{kind} {use}": fit(kind, use) for kind in ("node", "torch", "viscy", "batch") for use in (False, True)}
    (folder / os.environ["RANK"]).write_text(json.dumps(results))


if __name__ == "__main__":
    rank_main(Path(sys.argv[1]))
