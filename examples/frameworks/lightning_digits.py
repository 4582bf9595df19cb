"""Lightning's Trainer, with the callback that fills the caches first, logs what they do, and resumes exactly.

python examples/frameworks/lightning_digits.py
"""

import lightning
import torch
import torch.distributed as dist
import torchmetrics
from ddpcache.torch import LightningCallback
from digits import EPOCHS, make_loader, make_model, parse_options, real_size, report


class Data(lightning.LightningDataModule):
    def __init__(self, *where) -> None:
        super().__init__()
        self.where = where

    def train_dataloader(self):
        return make_loader("train", *self.where)

    def val_dataloader(self):
        return make_loader("validation", *self.where)


class Model(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.network = make_model()
        self.right = torchmetrics.SumMetric()
        self.count = torchmetrics.SumMetric()

    def training_step(self, batch, _):
        images, labels = batch
        return torch.nn.functional.cross_entropy(self.network(images), labels)

    def on_validation_epoch_start(self):
        self.right.reset()
        self.count.reset()

    def validation_step(self, batch, number):
        images, labels = batch
        real = real_size(self.trainer.val_dataloaders, number, len(labels))
        self.right.update((self.network(images).argmax(1) == labels)[:real].sum())
        self.count.update(real)

    def on_validation_epoch_end(self):
        # Over all ranks, each sample once.
        self.counts = self.right.compute(), self.count.compute()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)


class Shown(lightning.Callback):
    """Any logger has these values too."""

    def on_train_epoch_end(self, trainer, pl_module):
        names = "decoded", "hit_rate", "samples_per_second"
        decoded, hit_rate, rate = (float(trainer.callback_metrics[f"ddpcache/{name}"]) for name in names)
        if trainer.is_global_zero:
            line = f"decoded {decoded:.0f}, hit rate {hit_rate:.1%}, {rate:.0f} samples/s"
            print(f"epoch {trainer.current_epoch}: {line}", flush=True)


def main() -> None:
    options = parse_options(__doc__)
    model = Model()
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_epochs=EPOCHS,
        use_distributed_sampler=False,  # the samplers distribute
        callbacks=[LightningCallback(warm_up=True), Shown()],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )
    trainer.fit(model, datamodule=Data(options.name, options.notes))
    if trainer.is_global_zero:
        report(options.name, options.notes, *(int(count) for count in model.counts))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
