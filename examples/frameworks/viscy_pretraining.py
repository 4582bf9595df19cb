"""VisCy: FCMAE pre-training of two ranks over an OME-Zarr plate, whose volumes are read once on the node.

python examples/frameworks/viscy_pretraining.py FOLDER [NAME] [--sampler viscy]

VisCy's CachedOmeZarrDataModule keeps what it has read in a Manager().dict(), of which each rank has its own. Here it is
given a ddpcache.SharedDict instead, in two lines; the class is VisCy's. FOLDER takes the plate, made of real images
that scikit-image brings along, and the notes of what was read.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from pathlib import Path

import lightning
import numpy as np
import skimage
import torch.distributed as dist
import viscy.data.gpu_aug
from ddpcache import SharedDict
from ddpcache.torch import LightningCallback, NodeSampler
from iohub.ngff import ImageArray, open_ome_zarr
from lightning.pytorch.loggers import TensorBoardLogger
from viscy.data.combined import CombinedDataModule
from viscy.data.gpu_aug import CachedOmeZarrDataModule
from viscy.transforms import BatchedRandFlipd, BatchedRandGaussianNoised, Decollate, NormalizeSampled, StackChannelsd
from viscy.translation.engine import FcmaeUNet, MaskedMSELoss

CHANNELS = ["Image", "Edges"]
IMAGES = "astronaut brick camera cell coffee coins grass gravel moon page rocket text".split()
TIMES, DEPTH, SIDE = 2, 5, 64
EPOCHS, BATCH, SPLIT = 2, 3, 0.75


def write_plate(path: Path) -> None:
    """A field of view for each image: two crops of it as time points, blurred by their distance from the focus."""
    with open_ome_zarr(path, layout="hcs", mode="w", channel_names=CHANNELS) as plate:
        for number, name in enumerate(IMAGES):
            image = skimage.util.img_as_float(getattr(skimage.data, name)())
            grey = skimage.color.rgb2gray(image[..., :3]) if image.ndim == 3 else image
            volumes = np.stack([focus_stack(grey[time * SIDE :][:SIDE, :SIDE]) for time in range(TIMES)])
            position = plate.create_position("A", str(number // 4 + 1), str(number % 4))
            position.create_image("0", volumes.astype(np.float32))
            # What `viscy preprocess` writes, as far as it is used here.
            position.zattrs["normalization"] = {
                channel: {"fov_statistics": {"mean": float(volume.mean()), "std": float(volume.std())}}
                for channel, volume in zip(CHANNELS, volumes.swapaxes(0, 1), strict=True)
            }


def focus_stack(image: np.ndarray) -> np.ndarray:
    focus = DEPTH // 2
    planes = np.stack([skimage.filters.gaussian(image, abs(depth - focus)) for depth in range(DEPTH)])
    return np.stack([planes, skimage.filters.sobel(planes)])


class SharedManager:
    """Stands where VisCy makes a Manager and asks it for a dict: all ranks have one."""

    name = "viscy"

    def dict(self) -> SharedDict:
        return SharedDict(self.name, length=1000, capacity="64MiB")


class SharedOmeZarrDataModule(CachedOmeZarrDataModule):
    def __init__(self, name: str, sampler: str, **options) -> None:
        super().__init__(**options)
        self.name, self.sampler = name, sampler

    def setup(self, stage) -> None:
        SharedManager.name = f"{self.name}-train"
        super().setup(stage)
        # VisCy 0.4.1 numbers the volumes of both parts from 0, in one dict: validation would be given training's.
        SharedManager.name = f"{self.name}-validation"
        self.val_dataset._cache_map = SharedManager().dict()
        self.val_dataset._cache_map.update(dict.fromkeys(range(len(self.val_dataset))))

    def _maybe_sampler(self, dataset, shuffle):
        if self.sampler == "viscy":
            return super()._maybe_sampler(dataset, shuffle)
        return NodeSampler(dataset, shuffle=shuffle)


def make_data(name: str, sampler: str, plate: Path) -> SharedOmeZarrDataModule:
    normalize = [NormalizeSampled(CHANNELS, "fov_statistics", remove_meta=True)]
    # Of a whole batch at once, on the device of the model.
    augment = [
        BatchedRandFlipd(CHANNELS, spatial_axes=[1, 2], prob=0.5),
        BatchedRandGaussianNoised(CHANNELS, prob=0.5, std=0.1),
    ]
    stack = [Decollate(), StackChannelsd({"source": CHANNELS})]
    return SharedOmeZarrDataModule(
        name,
        sampler,
        data_path=plate,
        channels=CHANNELS,
        batch_size=BATCH,
        num_workers=1,
        split_ratio=SPLIT,
        train_cpu_transforms=normalize,
        val_cpu_transforms=normalize,
        train_gpu_transforms=augment + stack,
        val_gpu_transforms=stack,
        pin_memory=False,
    )


def make_model() -> FcmaeUNet:
    size = {"encoder_blocks": [1, 1, 1, 1], "dims": [8, 16, 32, 64], "decoder_conv_blocks": 1}
    shape = {"in_channels": 2, "out_channels": 2, "in_stack_depth": DEPTH, "stem_kernel_size": [DEPTH, 4, 4]}
    return FcmaeUNet(
        fit_mask_ratio=0.5,
        model_config={**size, **shape, "pretraining": True},
        loss_function=MaskedMSELoss(),
        example_input_yx_shape=[SIDE, SIDE],
    )


def note_reads(file: Path) -> None:
    """Each volume that iohub reads for VisCy leaves a line, whichever process reads it."""
    plain = ImageArray.oindex.fget

    class Noted:
        def __init__(self, array) -> None:
            self.array = array

        def __getitem__(self, selection):
            with file.open("a") as notes:
                notes.write(f"{self.array.path} {selection[0]}\n")
            return plain(self.array)[selection]

    ImageArray.oindex = property(Noted)


def report(file: Path) -> None:
    times = Counter(file.read_text().splitlines())
    file.unlink()
    wanted = len(IMAGES) * TIMES
    if len(times) != wanted or set(times.values()) != {1}:
        raise SystemExit(f"not each of {wanted} volumes was read once, but as often as this: {dict(times)}")
    print(f"{times.total()} volumes of the plate read on this node, each once", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("name", nargs="?", default="viscy", help="of the caches")
    parser.add_argument("--sampler", choices=["node", "viscy"], default="node")
    options = parser.parse_args()
    plate, notes = options.folder / "plate.zarr", options.folder / f"{options.name}.reads"
    if "LOCAL_RANK" not in os.environ and not plate.exists():
        write_plate(plate)  # Lightning starts this file again for the other rank

    viscy.data.gpu_aug.Manager = SharedManager
    note_reads(notes)
    lightning.seed_everything(0)  # ranks must choose the same fields of view for validation
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp_find_unused_parameters_true",
        max_epochs=EPOCHS,
        use_distributed_sampler=False,
        callbacks=[LightningCallback()],
        logger=TensorBoardLogger(options.folder, name=options.name),
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        log_every_n_steps=1,
    )
    data = CombinedDataModule([make_data(options.name, options.sampler, plate)])
    trainer.fit(make_model(), datamodule=data)
    if trainer.is_global_zero:
        loss = {name: float(value) for name, value in trainer.callback_metrics.items() if name.startswith("loss/")}
        print(f"after {trainer.global_step} steps: {', '.join(f'{name} {value:.3f}' for name, value in loss.items())}")
        report(notes)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
