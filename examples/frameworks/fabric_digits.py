"""Lightning Fabric, which starts the ranks itself.

python examples/frameworks/fabric_digits.py
"""

import lightning
import torch
import torch.distributed as dist
from ddpcache.torch import check_loader
from digits import EPOCHS, count_right, make_loader, make_model, parse_options, report


def main() -> None:
    options = parse_options(__doc__)
    fabric = lightning.Fabric(accelerator="cpu", devices=2, strategy="ddp")
    fabric.launch()
    # The samplers distribute already. Fabric calls their set_epoch at the beginning of each pass.
    train, validation = fabric.setup_dataloaders(
        make_loader("train", options.name, options.notes),
        make_loader("validation", options.name, options.notes),
        use_distributed_sampler=False,
    )
    check_loader(train)
    model = make_model()
    model, optimizer = fabric.setup(model, torch.optim.Adam(model.parameters(), lr=1e-2))

    for _ in range(EPOCHS):
        for images, labels in train:
            optimizer.zero_grad()
            fabric.backward(torch.nn.functional.cross_entropy(model(images), labels))
            optimizer.step()
        counts = fabric.all_reduce(count_right(model, validation), reduce_op="sum")

    if fabric.is_global_zero:
        report(options.name, options.notes, *counts.tolist())
    fabric.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
