"""Plain torch under torchrun.

torchrun --standalone --nproc_per_node=2 examples/frameworks/torchrun_digits.py
"""

import torch
import torch.distributed as dist
from digits import EPOCHS, count_right, make_loader, make_model, parse_options, report
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    options = parse_options(__doc__)
    dist.init_process_group("gloo")
    train = make_loader("train", options.name, options.notes)
    validation = make_loader("validation", options.name, options.notes)
    model = DistributedDataParallel(make_model())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    for epoch in range(EPOCHS):
        train.sampler.set_epoch(epoch)
        for images, labels in train:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
        counts = count_right(model, validation)
        dist.all_reduce(counts)

    if dist.get_rank() == 0:
        report(options.name, options.notes, *counts.tolist())
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
