"""Ray Train: two workers on a local cluster, which this program starts and ends.

python examples/frameworks/ray_digits.py
"""

import tempfile
from pathlib import Path

import ray
import ray.train.torch
import torch
import torch.distributed as dist
from ddpcache.torch import check_loader
from digits import EPOCHS, count_right, make_loader, make_model, parse_options, report


def train_rank(config: dict) -> None:
    name, notes = config["name"], Path(config["notes"])
    # Ray leaves loaders alone whose sampler is a DistributedSampler of torch, as NodeSampler is.
    train = ray.train.torch.prepare_data_loader(make_loader("train", name, notes))
    validation = ray.train.torch.prepare_data_loader(make_loader("validation", name, notes))
    check_loader(train)
    model = ray.train.torch.prepare_model(make_model())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    for epoch in range(EPOCHS):
        train.sampler.set_epoch(epoch)
        for images, labels in train:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
        counts = count_right(model, validation)
        dist.all_reduce(counts)

    with tempfile.TemporaryDirectory() as folder:
        torch.save(model.state_dict(), f"{folder}/model.pt")
        # Ray keeps the metrics that come with a checkpoint.
        checkpoint = ray.train.Checkpoint.from_directory(folder) if dist.get_rank() == 0 else None
        ray.train.report({"right": int(counts[0]), "count": int(counts[1])}, checkpoint=checkpoint)


def main() -> None:
    options = parse_options(__doc__)
    here = str(Path(__file__).parent)
    with tempfile.TemporaryDirectory(prefix="ray-") as folder:
        ray.init(
            num_cpus=2,
            include_dashboard=False,
            runtime_env={"env_vars": {"PYTHONPATH": here, "OMP_NUM_THREADS": "1"}},
            _temp_dir=folder,
        )
        trainer = ray.train.torch.TorchTrainer(
            train_rank,
            train_loop_config={"name": options.name, "notes": str(options.notes)},
            scaling_config=ray.train.ScalingConfig(num_workers=2, resources_per_worker={"CPU": 1}),
            run_config=ray.train.RunConfig(storage_path=f"{folder}/results"),
            torch_config=ray.train.torch.TorchConfig(backend="gloo"),
        )
        counts = trainer.fit().metrics
        ray.shutdown()
    report(options.name, options.notes, counts["right"], counts["count"])


if __name__ == "__main__":
    main()
