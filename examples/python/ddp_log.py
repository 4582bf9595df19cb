"""ddp_log: the run that started this project, a log of who adds which item to the cache.

50 items, of which 30 are for training and 20 for validation, are read by 3 ranks under Lightning, through data-loader
workers, for 5 epochs. With a cache in each process, items are added over and over, in every epoch. With one for the
node, each is added once, all of them in epoch 0. The run checks that, and fails where it does not hold.

    build/venv/bin/python examples/python/ddp_log.py
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import lightning
import torch
import torch.distributed as dist
from ddpcache.torch import CachedDataset, NodeSampler
from torch.utils.data import DataLoader, Dataset, Subset, get_worker_info

ITEMS, TRAIN = 50, 30
RANKS, WORKERS, EPOCHS = 3, 2, 5


class Items(Dataset):
    """Item i is a row of numbers. It is made only to be added to the cache, so that each making is an addition."""

    def __init__(self, log: Path) -> None:
        self.log = log

    def __len__(self) -> int:
        return ITEMS

    def __getitem__(self, index: int) -> torch.Tensor:
        worker = get_worker_info()
        line = f"rank {os.environ['LOCAL_RANK']} worker {worker.id if worker else 'none'} adds item {index}\n"
        with self.log.open("a") as log:
            log.write(line)
        print(line, end="", flush=True)
        return torch.full((4,), float(index))


def added_items(log: Path) -> list[int]:
    """The items in the order of their addition."""
    return [int(line.split()[-1]) for line in log.read_text().splitlines()]


class Data(lightning.LightningDataModule):
    """Both loaders read parts of one cached data set."""

    def __init__(self, name: str, log: Path) -> None:
        super().__init__()
        self.items = CachedDataset(Items(log), name, capacity="4MiB")

    def loader(self, numbers: range, shuffle: bool) -> DataLoader:
        part = Subset(self.items, numbers)
        sampler = NodeSampler(part, shuffle=shuffle)
        return DataLoader(part, batch_size=2, sampler=sampler, num_workers=WORKERS, persistent_workers=True)

    def train_dataloader(self) -> DataLoader:
        return self.loader(range(TRAIN), shuffle=True)

    def val_dataloader(self) -> DataLoader:
        return self.loader(range(TRAIN, ITEMS), shuffle=False)


class Model(lightning.LightningModule):
    """Something to train. Rank 0 counts the additions of all at the end of each epoch."""

    def __init__(self, log: Path) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
        self.log_file = log
        self.added: list[int] = []

    def training_step(self, batch: torch.Tensor, _: int) -> torch.Tensor:
        return self.layer(batch / ITEMS).square().mean()

    def validation_step(self, batch: torch.Tensor, _: int) -> None:
        self.layer(batch / ITEMS)

    def on_train_epoch_end(self) -> None:
        # Validation is over here too.
        self.trainer.strategy.barrier()
        self.added.append(len(added_items(self.log_file)) - sum(self.added))
        if self.global_rank == 0:
            print(f"epoch {self.current_epoch}: {self.added[-1]} items added", flush=True)
        self.trainer.strategy.barrier()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01)


def violations(model: Model) -> list[str]:
    """What is not as promised."""
    times = Counter(added_items(model.log_file))
    found = [f"item {item} was added {times[item]} times" for item in range(ITEMS) if times[item] != 1]
    if model.added != [ITEMS, *[0] * (EPOCHS - 1)]:
        found.append(f"items added by epoch: {model.added}")
    return found


def quiet() -> None:
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", ".*(max number of worker|does not have many workers).*")


def main() -> int:
    quiet()
    # Lightning runs this file again for the other ranks, which inherit the variable.
    if "DDP_LOG_FOLDER" not in os.environ:
        os.environ["DDP_LOG_FOLDER"] = tempfile.mkdtemp(prefix="ddp-log-")
    folder = Path(os.environ["DDP_LOG_FOLDER"])
    log = folder / "additions.log"
    model = Model(log)
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=RANKS,
        strategy="ddp",
        max_epochs=EPOCHS,
        use_distributed_sampler=False,  # the samplers distribute
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, datamodule=Data(folder.name, log))
    dist.destroy_process_group()
    if not trainer.is_global_zero:
        return 0
    found = violations(model)
    print("\n".join(found) or f"each of the {ITEMS} items was added once, all of them in epoch 0")
    log.unlink()
    folder.rmdir()
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
