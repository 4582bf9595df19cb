"""CachedLoader in Lightning: Fabric takes it, the Trainer keeps it, and a checkpoint in mid-epoch goes on exactly."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
from ddpcache.torch import CachedDataset, CachedLoader, NodeSampler
from lightning.fabric import Fabric
from torch.utils.data import Dataset

LENGTH, BATCH = 26, 4
BATCHES, EPOCHS = 7, 3


class Numbers(Dataset):
    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.full((3,), float(index)), index


class Model(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 1)
        self.seen: list[tuple[int, list[int]]] = []

    def training_step(self, batch: Any) -> torch.Tensor:
        images, numbers = batch
        self.seen.append((self.current_epoch, numbers.tolist()))
        return self.layer(images).mean()

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), 1e-3)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.fixture
def dataset(name: str) -> Iterator[CachedDataset]:
    with CachedDataset(Numbers(), name, capacity="16MiB") as dataset:
        yield dataset


def fit(loader: Any, folder: Path, checkpoint: Path | None = None, **options: Any) -> Model:
    model = Model()
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=1,
        max_epochs=EPOCHS,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing="callbacks" in options,
        default_root_dir=folder,
        **options,
    )
    trainer.fit(model, loader, ckpt_path=checkpoint)
    return model


SAMPLERS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "NodeSampler": lambda data: {"sampler": NodeSampler(data)},
    "generator": lambda _: {"shuffle": True, "generator": torch.Generator().manual_seed(2)},
}


# The end of an epoch can only be told from the begin of the next where the sampler knows epochs.
@pytest.mark.parametrize(
    ("sampler", "at"), [("NodeSampler", 10), ("NodeSampler", BATCHES), ("generator", 3), ("generator", 10)]
)
def test_the_trainer_goes_on_with_a_checkpoint(sampler: str, at: int, dataset: Any, tmp_path: Path) -> None:
    def loader() -> CachedLoader:
        return CachedLoader(dataset, BATCH, num_workers=1, persistent_workers=True, **SAMPLERS[sampler](dataset))

    save = lightning.pytorch.callbacks.ModelCheckpoint(tmp_path, every_n_train_steps=at, save_top_k=-1)
    whole = fit(loader(), tmp_path, callbacks=[save]).seen
    assert [epoch for epoch, _ in whole] == [epoch for epoch in range(EPOCHS) for _ in range(BATCHES)]
    for epoch in range(EPOCHS):
        assert sorted(sum((batch for at, batch in whole if at == epoch), [])) == list(range(LENGTH))
    (checkpoint,) = tmp_path.glob(f"*step={at}.ckpt")
    assert fit(loader(), tmp_path, checkpoint).seen == whole[at:]


def test_fabric_takes_it(dataset: Any) -> None:
    fabric = Fabric(accelerator="cpu", devices=1)
    loader = CachedLoader(dataset, BATCH, sampler=NodeSampler(dataset))
    ours = fabric.setup_dataloaders(loader)
    assert [batch[1].tolist() for batch in ours] == [batch[1].tolist() for batch in loader]
    assert dataset.cache.stats().fills == LENGTH
