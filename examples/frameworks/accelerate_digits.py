"""Hugging Face accelerate.

torchrun --standalone --nproc_per_node=2 examples/frameworks/accelerate_digits.py

With GPUs without cpu=True, and by `accelerate launch`, which starts one process on CPUs.
"""

import torch
from accelerate import Accelerator
from ddpcache.torch import DealtTwiceError, check_loader
from digits import EPOCHS, count_right, make_loader, make_model, parse_options, report


def main() -> None:
    options = parse_options(__doc__)
    accelerator = Accelerator(cpu=True)
    train = make_loader("train", options.name, options.notes)
    validation = make_loader("validation", options.name, options.notes)
    model = make_model()
    # Not the loaders: accelerate would deal each rank's batches to the ranks once more.
    model, optimizer = accelerator.prepare(model, torch.optim.Adam(model.parameters(), lr=1e-2))
    try:
        check_loader(accelerator.prepare(train))
    except DealtTwiceError as error:
        accelerator.print(f"a prepared loader: {error}")

    for epoch in range(EPOCHS):
        train.sampler.set_epoch(epoch)
        for images, labels in train:
            # On a GPU: images, labels = images.to(accelerator.device), labels.to(accelerator.device)
            optimizer.zero_grad()
            accelerator.backward(torch.nn.functional.cross_entropy(model(images), labels))
            optimizer.step()
        counts = accelerator.reduce(count_right(model, validation), reduction="sum")

    if accelerator.is_main_process:
        report(options.name, options.notes, *counts.tolist())
    accelerator.wait_for_everyone()
    accelerator.end_training()


if __name__ == "__main__":
    main()
