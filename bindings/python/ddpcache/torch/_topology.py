"""Where this rank stands, from the process group, the launcher's variables and the caches that ranks share."""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch.distributed as dist

from .. import Cache, Topology, TopologyError, topology


@dataclass(frozen=True)
class Layout:
    """What the user says of the layout. None: found out."""

    num_nodes: int | None = None
    node: int | None = None
    local_rank: int | None = None
    local_world: int | None = None


def process_group() -> tuple[int, int] | None:
    """Rank and world size of torch's default process group; None where there is none."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return None


def rank_and_world(layout: Layout) -> tuple[int, int]:
    """This process's rank and the number of ranks, found without asking the others."""
    group = process_group()
    if group is not None:
        return group
    place = topology() if layout == Layout() else _as_told(layout, None)
    return place.rank, place.world_size


def resolve(layout: Layout, cache: Cache | None) -> Topology:
    """This rank's place.

    The user's word comes first. Then, within a process group of several nodes, a node is the ranks that share one
    cache: launchers number nodes anew when a job restarts, and a node that finds its cache again must find its number
    again too. That takes one collective call. Otherwise the launcher's variables say it.

    Raises TopologyError.
    """
    group = process_group()
    if layout != Layout():
        return _as_told(layout, group)
    if group is None:
        return topology()
    rank, world = group
    if world == 1:
        return Topology()
    launched = _launched(rank, world)
    if launched is not None and (launched.nodes == 1 or cache is None):
        return launched
    return _gathered(cache, rank, world)


def _as_told(layout: Layout, group: tuple[int, int] | None) -> Topology:
    """The user's numbers; those that are left out follow from rank and world size, ranks numbered node after node."""
    nodes, node, local_rank, local_world = layout.num_nodes, layout.node, layout.local_rank, layout.local_world
    if group is not None:
        rank, world = group
    elif nodes is not None and node is not None and local_rank is not None and local_world is not None:
        rank, world = node * local_world + local_rank, nodes * local_world
    else:
        place = topology()
        rank, world = place.rank, place.world_size
    local_world = local_world or max(1, world // (nodes or 1))
    nodes = nodes or max(1, world // local_world)
    if nodes * local_world != world:
        raise TopologyError(f"num_nodes={nodes} of local_world={local_world} ranks are not the job's {world} ranks")
    node = rank // local_world if node is None else node
    local_rank = rank % local_world if local_rank is None else local_rank
    for name, value, count in (("node", node, nodes), ("local_rank", local_rank, local_world)):
        if value >= count:
            raise TopologyError(f"{name}={value} is not in 0..{count - 1}")
    return Topology(node, nodes, local_rank, local_world, rank)


def _launched(rank: int, world: int) -> Topology | None:
    """The place in the launcher's variables, where they are of this process group and complete."""
    try:
        place = topology()
    except TopologyError:
        return None
    return place if (place.rank, place.world_size) == (rank, world) else None


def _gathered(cache: Cache | None, rank: int, world: int) -> Topology:
    """The place among the ranks that share a cache (without one: a machine), each of which says what it uses."""
    mine = (_machine(), None) if cache is None else (cache.info.uuid, kept_number(cache))
    everyone: list[tuple[str, int | None]] = [mine] * world
    dist.all_gather_object(everyone, mine)
    numbers = number_nodes(everyone)
    node = numbers[mine[0]]
    members = [other for other, (owner, _) in enumerate(everyone) if owner == mine[0]]
    local_rank = members.index(rank)
    if cache is not None and local_rank == 0 and cache.info.keep:
        keep_number(cache, node)
    return Topology(node, len(numbers), local_rank, len(members), rank)


def number_nodes(everyone: Sequence[tuple[Hashable, int | None]]) -> dict[Hashable, int]:
    """A number for each node, from what each rank says: its node's identity, and the number that this had before.

    Nodes keep their numbers, and new ones take what is free in the order of their lowest rank. Where two claim one
    number, or one is beyond the nodes that are left, the later node in that order is new.
    """
    kept = dict(reversed(everyone))
    owners = list(dict.fromkeys(owner for owner, _ in everyone))
    sizes = {owner: sum(other == owner for other, _ in everyone) for owner in owners}
    if len(set(sizes.values())) > 1:
        raise TopologyError(f"nodes have different numbers of ranks: {', '.join(map(str, sizes.values()))}")
    numbers: dict[Hashable, int] = {}
    for owner in owners:
        number = kept[owner]
        if number is not None and 0 <= number < len(owners) and number not in numbers.values():
            numbers[owner] = number
    free = iter(sorted(set(range(len(owners))) - set(numbers.values())))
    return {owner: numbers[owner] if owner in numbers else next(free) for owner in owners}


def _machine() -> str:
    """What the processes that can share memory have in common: one boot and one /dev/shm."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}:{os.stat('/dev/shm').st_dev}"


def number_file(cache: Cache) -> Path:
    """Where the node number of a kept cache is kept: beside it."""
    return Path(cache.directory or "/dev/shm") / f"ddpcache-node.{os.getuid()}.{cache.name}"


def kept_number(cache: Cache) -> int | None:
    """The node number that was kept for this very cache."""
    try:
        descriptor = os.open(number_file(cache), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with open(descriptor, encoding="ascii") as file:
        if os.fstat(descriptor).st_uid != os.getuid():
            raise TopologyError(f"{number_file(cache)} belongs to another user")
        uuid, _, number = file.read(100).strip().partition(" ")
    return int(number) if uuid == cache.info.uuid and number.isdecimal() else None


def keep_number(cache: Cache, number: int) -> None:
    """Keeps the node number of a cache for the next job."""
    path = number_file(cache)
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="ascii") as file:
        file.write(f"{cache.info.uuid} {number}\n")
    fresh.replace(path)
