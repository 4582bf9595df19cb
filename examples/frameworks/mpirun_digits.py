"""MPI: the ranks are mpirun's, and torch's process group is made of them.

mpirun -n 2 python examples/frameworks/mpirun_digits.py
"""

import socket

import torch
import torch.distributed as dist
from digits import EPOCHS, count_right, make_loader, make_model, parse_options, report
from mpi4py import MPI
from torch.nn.parallel import DistributedDataParallel


def init_process_group() -> None:
    """Rank 0 says where it listens. The samplers need no more: they know the variables of MPI and torch's group."""
    world = MPI.COMM_WORLD
    with socket.socket() as free:
        free.bind(("", 0))
        address = socket.gethostbyname(socket.gethostname()), free.getsockname()[1]
    host, port = world.bcast(address)
    dist.init_process_group("gloo", init_method=f"tcp://{host}:{port}", rank=world.rank, world_size=world.size)


def main() -> None:
    options = parse_options(__doc__)
    init_process_group()
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
