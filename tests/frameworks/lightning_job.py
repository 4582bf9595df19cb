"""One rank under torchrun, or alone: fits of Lightning with LightningCallback, told as JSON to test_lightning.py.

lightning_job.py FOLDER NAME CASE...
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path

import lightning
import torch
import torch.distributed as dist
from ddpcache.torch import (
    CachedDataset,
    CachedLoader,
    DistributedSampler,
    LightningCallback,
    NodeBatchSampler,
    NodeSampler,
    ShardedDistributedSampler,
)
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers.logger import Logger
from torch.utils.data import DataLoader, Dataset, Sampler, Subset

TRAIN, VALIDATION, BATCH = 48, 20, 4
EPOCHS = 3


class Items(Dataset):
    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        if not 0 <= index < self.length:
            raise IndexError(index)
        return torch.tensor([float(index)])


class Recording:
    """Records what it is trained on: for each batch its epoch, its number and its samples."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.seen: list = []
        self.validated: list = []

    def training_step(self, batch, number):
        self.seen.append([self.current_epoch, number, batch.flatten().int().tolist()])
        return (self.weight * batch).sum()

    def validation_step(self, batch, number):
        if not self.trainer.sanity_checking:
            self.validated.append([self.current_epoch, number, batch.flatten().int().tolist()])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.0)


class Model(Recording, lightning.LightningModule):
    pass


class Values(Logger):
    """Any logger: keeps what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.values: list = []

    name = version = "values"

    def log_hyperparams(self, *arguments, **named) -> None:
        pass

    def log_metrics(self, metrics, step=None) -> None:
        self.values.append({name: value for name, value in metrics.items() if name.startswith("ddpcache/")})


class Nested(Sampler):
    """A user's sampler that holds one of ours, and has no set_epoch."""

    def __init__(self, inner) -> None:
        self.inner = inner

    def __iter__(self):
        return iter(self.inner)

    def __len__(self) -> int:
        return len(self.inner)


SAMPLERS = {"node": NodeSampler, "torch": DistributedSampler, "viscy": ShardedDistributedSampler}


def make_loader(kind: str, data, workers: int = 0, shuffle: bool = True) -> DataLoader:
    more = {"num_workers": workers, "persistent_workers": workers > 0}
    if kind == "batch":
        return DataLoader(data, batch_sampler=NodeBatchSampler(NodeSampler(data, shuffle=shuffle), BATCH), **more)
    if kind == "cached":
        return CachedLoader(data, BATCH, sampler=NodeSampler(data, shuffle=shuffle), num_workers=workers)
    if kind == "nested":
        return DataLoader(data, BATCH, sampler=Nested(NodeSampler(data)), **more)
    if kind == "none":
        return DataLoader(data, BATCH, shuffle=True, **more)
    return DataLoader(data, BATCH, sampler=SAMPLERS[kind](data, shuffle=shuffle), **more)


def make_trainer(module=lightning, callbacks=(), **options):
    return module.Trainer(
        accelerator="cpu",
        devices=int(os.environ.get("WORLD_SIZE", 1)),
        strategy="ddp" if "RANK" in os.environ else "auto",
        **{"max_epochs": EPOCHS, "use_distributed_sampler": False, "logger": False, **options},
        callbacks=list(callbacks),
        enable_checkpointing=any(isinstance(callback, ModelCheckpoint) for callback in callbacks),
        enable_progress_bar=False,
        enable_model_summary=False,
        log_every_n_steps=1,
    )


class Job:
    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.caches = 0

    def cached(self, length: int, part: str) -> CachedDataset:
        # A rank may be in the next case while another has this one's cache open.
        self.caches += 1
        return CachedDataset(Items(length), f"{self.name}-{part}-{self.caches}", capacity="4MiB")

    def logged(self, workers: int, warm_up: bool, module=lightning, model=None) -> dict:
        """What a logger is given over three epochs with validation."""
        logger, model = Values(), model or Model()
        trainer = make_trainer(module, [LightningCallback(warm_up=warm_up)], logger=logger, num_sanity_val_steps=0)
        with self.cached(TRAIN, "train") as train, self.cached(VALIDATION, "val") as validation:
            loaders = make_loader("node", train, workers), make_loader("node", validation, workers, shuffle=False)
            trainer.fit(model, *loaders)
            monitored = {name: float(value) for name, value in trainer.callback_metrics.items()}
            del loaders, trainer
        return {"values": [value for value in logger.values if value], "monitored": monitored}

    def case_logs(self) -> dict:
        return self.logged(workers=0, warm_up=False)

    def case_logs_workers(self) -> dict:
        return self.logged(workers=1, warm_up=False)

    def case_warm_up(self) -> dict:
        return self.logged(workers=1, warm_up=True)

    def case_pytorch_lightning(self) -> dict:
        import pytorch_lightning

        class Other(Recording, pytorch_lightning.LightningModule):
            pass

        # The callback was made for the package lightning, which was imported before it.
        return self.logged(workers=0, warm_up=True, module=pytorch_lightning, model=Other())

    def case_one_cache(self) -> dict:
        """Training and validation read parts of one cached data set."""
        logger = Values()
        trainer = make_trainer(callbacks=[LightningCallback(prefix="ddpcache/mine")], logger=logger)
        with self.cached(TRAIN + VALIDATION, "both") as data:
            parts = Subset(data, range(TRAIN)), Subset(data, range(TRAIN, TRAIN + VALIDATION))
            trainer.fit(Model(), make_loader("node", parts[0]), make_loader("node", parts[1], shuffle=False))
            trainer.test(TestModel(), make_loader("node", parts[1], shuffle=False), verbose=False)
        return {"values": [value for value in logger.values if value]}

    def case_nested(self) -> dict:
        seen = {}
        for kind in ("nested", "node"):
            model = Model()
            trainer = make_trainer(callbacks=[LightningCallback()])
            trainer.fit(model, make_loader(kind, Items(TRAIN)))
            seen[kind] = model.seen
        return seen

    def case_twice(self) -> dict:
        trainer = make_trainer(callbacks=[LightningCallback()], use_distributed_sampler=True)
        try:
            trainer.fit(Model(), make_loader("nested", Items(TRAIN)))
        except ValueError as error:
            return {"error": f"{type(error).__name__}: {error}"}
        return {"error": None}

    def case_not_dealt(self) -> dict:
        trainer = make_trainer(callbacks=[LightningCallback()], max_epochs=1)
        with warnings.catch_warnings(record=True) as caught, self.cached(TRAIN, "train") as data:
            warnings.simplefilter("always")
            trainer.fit(Model(), make_loader("none", data))
        return {"warnings": [str(one.message) for one in caught if "no distributed sampler" in str(one.message)]}

    # Resuming.

    def run(self, kind: str, workers: int, callbacks=(), resume=None, **options):
        model = Model()
        trainer = make_trainer(callbacks=callbacks, num_sanity_val_steps=0, **options)
        validation = make_loader("node", Items(VALIDATION), shuffle=False)
        data = self.cached(TRAIN, "cached") if kind == "cached" else Items(TRAIN)
        trainer.fit(model, make_loader(kind, data, workers), validation, ckpt_path=resume)
        if kind == "cached":
            data.close()
        return {"seen": model.seen, "validated": model.validated, "steps": trainer.global_step}

    def saver(self, label: str, **options) -> ModelCheckpoint:
        folder = self.folder / f"{self.name}-{label}"
        return ModelCheckpoint(folder, filename="{step}", save_top_k=-1, save_weights_only=False, **options)

    def resumed(self, label: str, kind: str, workers: int, step: int, callback=LightningCallback, **options) -> dict:
        """A whole run, and one that goes on from its checkpoint."""
        saver = self.saver(label, **(options or {"every_n_train_steps": 1}))
        whole = self.run(kind, workers, [callback(), saver])
        rest = self.run(kind, workers, [callback()], resume=self.folder / f"{self.name}-{label}" / f"step={step}.ckpt")
        return {"whole": whole, "rest": rest}

    def case_resume(self) -> dict:
        kinds = [("node", 0), ("node", 1), ("torch", 1), ("viscy", 0), ("batch", 1), ("cached", 1)]
        return {
            f"{kind} {workers}": self.resumed(f"resume-{kind}-{workers}", kind, workers, step=6 + 2)
            for kind, workers in kinds
        }

    def case_resume_without(self) -> dict:
        """Lightning alone: what the callback is for."""
        return self.resumed("without", "node", 1, step=6 + 2, callback=lightning.Callback)

    def case_resume_at_ends(self) -> dict:
        found = {}
        for label, options in {
            "epoch": {"every_n_epochs": 1, "save_on_train_epoch_end": True},
            "validation": {"every_n_epochs": 1, "save_on_train_epoch_end": False},
            "last batch": {"every_n_train_steps": 6},
        }.items():
            found[label] = self.resumed(f"end-{label}", "node", 0, step=12, **options)
        return found

    def case_save_twice(self) -> dict:
        """Stopped and resumed twice within one epoch."""
        whole = self.run("node", 0, [LightningCallback(), self.saver("first", every_n_train_steps=1)])
        second = self.saver("second", every_n_train_steps=1)
        first_rest = self.folder / f"{self.name}-first" / "step=8.ckpt"
        self.run("node", 0, [LightningCallback(), second], resume=first_rest)
        second_rest = self.folder / f"{self.name}-second" / "step=10.ckpt"
        return {"whole": whole, "rest": self.run("node", 0, [LightningCallback()], resume=second_rest)}

    def case_save_for_others(self) -> dict:
        return self.run("node", 0, [LightningCallback(), self.saver("others", every_n_train_steps=1)])

    def case_resume_alone(self) -> dict:
        return self.run("node", 0, [LightningCallback()], resume=self.folder / f"{self.name}-others" / "step=8.ckpt")

    def case_resume_other_loaders(self) -> dict:
        try:
            resume = self.folder / f"{self.name}-others" / "step=8.ckpt"
            self.run("none", 0, [LightningCallback()], resume=resume)
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"}
        return {"error": None}


class TestModel(Model):
    def test_step(self, batch, number):
        pass


def main() -> None:
    folder, name, *cases = sys.argv[1:]
    job = Job(Path(folder), name)
    results = {}
    for case in cases:
        results[case] = getattr(job, f"case_{case}")()
        Path(folder, f"{name}-progress-{os.environ.get('RANK', 'alone')}").write_text(case)
    Path(folder, f"{name}-{os.environ.get('RANK', 'alone')}.json").write_text(json.dumps(results))
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
