"""The main promise under real DDP: 3 ranks of 4 data-loader workers each decode every sample once between them.

Run by torchrun, this file is a rank.
"""

import json
import os
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path

import ddpcache
import pytest
import torch
import torch.distributed as dist
from ddpcache.torch import CachedDataset, NodeBatchSampler, NodeSampler
from torch.utils.data import DataLoader, Dataset

RANKS, WORKERS, EPOCHS = 3, 4, 4
TRAIN, VALIDATION = 203, 50  # neither divides by the ranks


class Logged(Dataset):
    """Sample i is (a tensor of i + base, i). Each decode appends i to a file, whichever process does it."""

    def __init__(self, length, base, log):
        self.length, self.base, self.log = length, base, log

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        descriptor = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(descriptor, struct.pack("<q", index))
        os.close(descriptor)
        return torch.full((3, 16, 16), self.base + index, dtype=torch.int32), index


def decodes(log):
    """How often each sample was decoded."""
    path = Path(log)
    return Counter(index for (index,) in struct.iter_unpack("<q", path.read_bytes())) if path.exists() else Counter()


def torchrun(*arguments, ranks=RANKS):
    """This file as ranks; what rank 0 printed."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(ranks)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, __file__, *map(str, arguments)], env=environment, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("start_method", ["fork", "spawn", "forkserver"])
def test_each_sample_is_decoded_once_on_the_node(name, tmp_path, start_method):
    logs = tmp_path / "train", tmp_path / "validation"
    result = torchrun("train", name, start_method, *logs)
    for log, length in zip(logs, (TRAIN, VALIDATION), strict=True):
        assert decodes(log) == Counter(range(length))
    per_epoch = sum(-(-length // RANKS) * RANKS for length in (TRAIN, VALIDATION))
    assert result["fills"] == [TRAIN + VALIDATION] * EPOCHS
    assert result["hits"] == [per_epoch - TRAIN - VALIDATION + epoch * per_epoch for epoch in range(EPOCHS)], (
        "every look-up from the second epoch on is a hit"
    )
    assert result["delivered"] == per_epoch * EPOCHS
    assert result["timeouts"] == result["bypasses"] == 0


def test_metric_masked_by_real_size_is_that_of_one_process(name, tmp_path):
    result = torchrun("metric", name, tmp_path / "log")
    assert result["count"] == VALIDATION
    assert result["masked"] == sum(index**2 for index in range(1, VALIDATION + 1))
    assert result["unmasked"] != result["masked"]


def test_two_nodes_decode_each_its_own_part_once(name, tmp_path):
    """Four ranks as two nodes, each with a cache of its own: no sample moves between them."""
    result = torchrun("nodes", name, tmp_path / "node", ranks=4)
    first, second = decodes(f"{tmp_path}/node0"), decodes(f"{tmp_path}/node1")
    # Where the samples do not divide by the ranks, a rank's padding is of its own node.
    assert first + second == Counter(range(TRAIN))
    assert result["sizes"] == [first.total(), second.total()] == [101, 102]


def checked(batch, base):
    images, indices = batch
    assert (images == (base + indices)[:, None, None, None].to(torch.int32)).all()
    return len(indices)


def train(name, start_method, *logs):
    data = [Logged(TRAIN, 1000, logs[0]), Logged(VALIDATION, 5000, logs[1])]
    sets = [
        CachedDataset(one, f"{name}.{kind}", capacity="16MiB")
        for one, kind in zip(data, ("train", "validation"), strict=True)
    ]
    samplers = [NodeSampler(sets[0]), NodeSampler(sets[1], shuffle=False)]
    options = {"num_workers": WORKERS, "multiprocessing_context": start_method, "persistent_workers": True}
    loaders = [
        DataLoader(sets[0], batch_sampler=NodeBatchSampler(samplers[0], 8), **options),
        DataLoader(sets[1], batch_size=8, sampler=samplers[1], **options),
    ]
    delivered, fills, hits = 0, [], []
    for epoch in range(EPOCHS):
        samplers[0].set_epoch(epoch)
        for loader, one in zip(loaders, data, strict=True):
            delivered += sum(checked(batch, one.base) for batch in loader)
        dist.barrier()
        stats = [one.cache.stats() for one in sets]
        fills.append(sum(one.fills for one in stats))
        hits.append(sum(one.hits for one in stats))
        dist.barrier()
    total = torch.tensor(delivered)
    dist.all_reduce(total)
    return {
        "delivered": int(total),
        "fills": fills,
        "hits": hits,
        "timeouts": sum(one.timeouts for one in stats),
        "bypasses": sum(one.bypasses for one in stats),
    }


def metric(name, log):
    """A sum over the validation samples, which padding would distort."""
    with CachedDataset(Logged(VALIDATION, 0, log), name, capacity="16MiB") as dataset:
        sampler = NodeSampler(dataset, shuffle=False)
        sums, seen = torch.zeros(3, dtype=torch.int64), 0
        for images, _ in DataLoader(dataset, batch_size=4, sampler=sampler):
            values = (images[:, 0, 0, 0].long() + 1) ** 2
            real = values[: max(0, sampler.real_size - seen)]
            seen += len(values)
            sums += torch.stack([torch.tensor(len(real)), real.sum(), values.sum()])
        dist.all_reduce(sums)
        dist.barrier()
    return dict(zip(("count", "masked", "unmasked"), sums.tolist(), strict=True))


def nodes(name, log):
    node = dist.get_rank() // 2
    with CachedDataset(Logged(TRAIN, 0, f"{log}{node}"), f"{name}.{node}", capacity="16MiB") as dataset:
        sampler = NodeSampler(dataset, num_nodes=2)
        assert sampler.topology.node == node
        for epoch in range(EPOCHS):
            sampler.set_epoch(epoch)
            for batch in DataLoader(dataset, batch_size=8, sampler=sampler):
                checked(batch, 0)
            dist.barrier()
        sizes = [0] * 4
        dist.all_gather_object(sizes, sampler.node_size)
    return {"sizes": sizes[::2]}


def rank_main(what, *arguments):
    dist.init_process_group("gloo")
    result = {"train": train, "metric": metric, "nodes": nodes}[what](*arguments)
    if dist.get_rank() == 0:
        print(json.dumps(result))
    dist.destroy_process_group()


if __name__ == "__main__":
    assert ddpcache.topology().launcher == "torchrun"
    rank_main(*sys.argv[1:])
