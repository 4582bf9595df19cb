"""One rank under torchrun, for test_validation.py: metrics over padded parts, or training on nine samples.

validation_job.py metrics FOLDER NAME
validation_job.py nine TAIL
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import lightning
import torch
import torch.distributed as dist
import torchmetrics
from ddpcache.torch import NodeBatchSampler, NodeSampler
from torch.utils.data import DataLoader

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "frameworks"))
import digits

digits.WORKERS = 0


def fixed_model() -> torch.nn.Module:
    """Untrained, so that it reads some right and most wrong."""
    return digits.make_model().eval()


class Judge(lightning.LightningModule):
    def __init__(self, masked: bool) -> None:
        super().__init__()
        self.network = fixed_model()
        self.masked = masked
        self.accuracy = torchmetrics.Accuracy("multiclass", num_classes=10)
        self.loss = torchmetrics.MeanMetric()

    def test_step(self, batch, number):
        images, labels = batch
        real = digits.real_size(self.trainer.test_dataloaders, number, len(labels)) if self.masked else len(labels)
        answers, labels = self.network(images)[:real], labels[:real]
        if real:
            self.accuracy.update(answers, labels)
            self.loss.update(torch.nn.functional.cross_entropy(answers, labels, reduction="none"))

    def on_test_epoch_end(self):
        self.log_dict({"accuracy": self.accuracy.compute(), "loss": self.loss.compute()})


def trainer(**options) -> lightning.Trainer:
    return lightning.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        use_distributed_sampler=False,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **options,
    )


def metrics(folder: Path, name: str) -> None:
    loader = digits.make_loader("validation", name, folder)
    results = {
        label: trainer().test(Judge(masked), loader, verbose=False)[0]
        for label, masked in (("masked", True), ("unmasked", False))
    }
    counts = digits.count_right(fixed_model(), loader)
    dist.all_reduce(counts)
    results["plain"] = counts.tolist()
    results["samples"] = sum(len(labels) for _, labels in loader)
    (folder / f"{dist.get_rank()}.json").write_text(json.dumps(results))


class Nine(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def training_step(self, batch, number):
        print(f"rank {self.global_rank} begins step {number}", flush=True)
        loss = (self.weight * batch).sum()
        self.log("loss", loss, on_step=True, sync_dist=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.0)


def nine(tail: str) -> None:
    data = torch.arange(9.0)
    sampler = NodeSampler(data, tail=tail)
    trainer(max_epochs=1).fit(Nine(), DataLoader(data, batch_sampler=NodeBatchSampler(sampler, 1)))
    print("has trained", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "metrics":
        metrics(Path(sys.argv[2]), sys.argv[3])
    else:
        nine(sys.argv[2])
    dist.destroy_process_group()  # its threads let go of tensors, and a process that ends meanwhile aborts
