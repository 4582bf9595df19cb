"""The samplers of ddpcache.torch: bit-exact where they copy others, and what NodeSampler promises."""

import copy
import hashlib
import inspect
import itertools
import json
import os
import pickle
import random
import subprocess
import sys
from pathlib import Path

import ddpcache
import numpy as np
import pytest
import torch.utils.data
from ddpcache.torch import DistributedSampler, NodeBatchSampler, NodeSampler, ShardedDistributedSampler
from ddpcache.torch._topology import number_nodes
from torch.utils.data import DataLoader

GOLDEN = Path(__file__).parents[3] / "tests" / "golden" / "samplers.json"
SAMPLERS = {"torch": DistributedSampler, "viscy": ShardedDistributedSampler}
RANK_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE")


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch):
    for name in list(os.environ):
        if name in RANK_VARIABLES or name.startswith(("SLURM_", "OMPI_", "PMI", "MPI_")):
            monkeypatch.delenv(name)


def all_ranks(length, nodes, local_world, **arguments):
    """Every rank's NodeSampler."""
    return [
        NodeSampler(range(length), num_nodes=nodes, local_world=local_world, node=node, local_rank=rank, **arguments)
        for node in range(nodes)
        for rank in range(local_world)
    ]


@pytest.mark.parametrize("cls", [DistributedSampler, ShardedDistributedSampler, NodeSampler, NodeBatchSampler])
def test_every_sampler_is_a_distributed_sampler_of_torch(cls):
    assert issubclass(cls, torch.utils.data.DistributedSampler)


@pytest.mark.parametrize("cls", [DistributedSampler, ShardedDistributedSampler])
def test_signature_is_torchs(cls):
    assert inspect.signature(cls) == inspect.signature(torch.utils.data.DistributedSampler)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("world", [1, 2, 3, 8])
def test_distributed_sampler_deals_as_torchs(world, drop_last, shuffle):
    seeds = [0, 1, -1, 2**31, 2**32 + 5, 2**63 - 3]
    for length, seed in itertools.product([0, 1, 2, 7, 8, 9, 100], seeds):
        for rank in range(world):
            arguments = (range(length), world, rank, shuffle, seed, drop_last)
            ours, theirs = DistributedSampler(*arguments), torch.utils.data.DistributedSampler(*arguments)
            assert len(ours) == len(theirs)
            for epoch in (0, 1, 1000):
                ours.set_epoch(epoch)
                theirs.set_epoch(epoch)
                assert list(ours) == list(theirs), (*arguments[1:], epoch)


def test_attributes_are_torchs():
    arguments = (range(10), 3, 1, True, 4, True)
    ours, theirs = DistributedSampler(*arguments), torch.utils.data.DistributedSampler(*arguments)
    assert vars(ours) == vars(theirs)


def test_attributes_may_be_set_as_in_torch():
    ours, theirs = (cls(range(10), 2, 0) for cls in (DistributedSampler, torch.utils.data.DistributedSampler))
    for sampler in (ours, theirs):
        sampler.epoch, sampler.seed, sampler.shuffle = 3, 9, True
    assert list(ours) == list(theirs)


@pytest.mark.parametrize(("seed", "epoch"), [(2**64, 0), (2**64 - 1, 1), (-(2**63) - 1, 0), (2**70, 0)])
def test_seeds_that_torch_refuses_are_value_errors_where_they_count(seed, epoch):
    theirs = torch.utils.data.DistributedSampler
    for cls in (DistributedSampler, ShardedDistributedSampler, theirs):
        sampler = cls(range(10), 2, 0, seed=seed)
        sampler.set_epoch(epoch)
        with pytest.raises((ValueError, RuntimeError) if cls is theirs else ValueError):
            list(sampler)
        sampler.shuffle = False
        assert list(sampler) == [0, 2, 4, 6, 8]


@pytest.mark.parametrize(("seed", "epoch"), [(2**64 - 1, 0), (-(2**63), 0), (-(2**63) - 1, 1), (2**64, -1)])
def test_the_outermost_seeds_deal_as_torchs(seed, epoch):
    ours, theirs = (
        cls(range(50), 2, 0, seed=seed) for cls in (DistributedSampler, torch.utils.data.DistributedSampler)
    )
    ours.set_epoch(epoch)
    theirs.set_epoch(epoch)
    assert list(ours) == list(theirs)


@pytest.mark.parametrize("cls", [DistributedSampler, ShardedDistributedSampler])
def test_rank_outside_the_world_is_torchs_error(cls):
    with pytest.raises(ValueError, match=r"Invalid rank 3.*\[0, 2\]"):
        cls(range(10), 3, 3)


@pytest.mark.parametrize("cls", [DistributedSampler, ShardedDistributedSampler])
def test_data_set_that_changed_its_length_is_an_error(cls):
    data = list(range(10))
    sampler = cls(data, 2, 0)
    data += range(10)
    with pytest.raises(ddpcache.StateError, match="has 20 samples.*5 samples a rank"):
        list(sampler)


def golden_cases():
    cases = json.loads(GOLDEN.read_text())["cases"]
    assert {case["sampler"] for case in cases} == set(SAMPLERS)
    return cases


@pytest.mark.parametrize("name", SAMPLERS)
def test_golden_vectors(name):
    for case in golden_cases():
        if case["sampler"] != name:
            continue
        for rank in range(case["world_size"]):
            sampler = SAMPLERS[name](
                range(case["length"]), case["world_size"], rank, case["shuffle"], case["seed"], case["drop_last"]
            )
            sampler.set_epoch(case["epoch"])
            if "ranks" in case:
                assert list(sampler) == case["ranks"][rank], case
            else:
                indices = np.fromiter(sampler, dtype="<i8", count=len(sampler))
                assert len(sampler) == case["size_per_rank"][rank]
                assert hashlib.sha256(indices.tobytes()).hexdigest() == case["sha256_int64le"][rank]


@pytest.mark.parametrize("cls", [DistributedSampler, ShardedDistributedSampler])
@pytest.mark.parametrize("length", [1, 2, 10, 12, 25])
def test_first_real_size_samples_of_the_ranks_are_each_sample_once(cls, length):
    ranks = [cls(range(length), 4, rank, shuffle=False) for rank in range(4)]
    assert sorted(index for rank in ranks for index in list(rank)[: rank.real_size]) == list(range(length))


def test_real_size_of_scattered_repeats_is_an_error():
    with pytest.raises(ddpcache.UnsupportedError):
        ShardedDistributedSampler(range(10), 4, 0).real_size  # noqa: B018


@pytest.mark.filterwarnings("ignore:.*tail='exact'")
@pytest.mark.parametrize("nodes, local_world", [(1, 1), (1, 4), (3, 2)])
@pytest.mark.parametrize("length", [1, 5, 24, 25, 5000])
def test_node_sampler_keeps_samples_on_their_node(length, nodes, local_world):
    for tail in ("pad", "exact"):
        ranks = all_ranks(length, nodes, local_world, tail=tail)
        homes = []
        for epoch in range(3):
            for rank in ranks:
                rank.set_epoch(epoch)
            real = [list(rank)[: rank.real_size] for rank in ranks]
            assert sorted(itertools.chain(*real)) == list(range(length))
            homes.append([set(itertools.chain(*real[node * local_world :][:local_world])) for node in range(nodes)])
        assert homes[0] == homes[1] == homes[2]


@pytest.mark.filterwarnings("ignore:.*tail='exact'")
@pytest.mark.parametrize("length", [6, 7, 11, 100])
def test_tails(length):
    def sizes(tail):
        return [len(list(rank)) for rank in all_ranks(length, 1, 6, tail=tail)]

    assert sizes("pad") == [-(-length // 6)] * 6
    assert sizes("drop") == [length // 6] * 6
    exact = sizes("exact")
    assert sum(exact) == length and max(exact) - min(exact) <= 1


@pytest.mark.filterwarnings("ignore:.*tail='exact'")
def test_len_num_samples_and_total_size_agree_with_what_is_dealt():
    for tail, length in itertools.product(("pad", "drop", "exact"), (12, 13)):
        ranks = all_ranks(length, 2, 2, tail=tail)
        assert [len(rank) for rank in ranks] == [len(list(rank)) for rank in ranks]
        assert {rank.total_size for rank in ranks} == {sum(map(len, ranks))}
        assert [rank.num_samples for rank in ranks] == list(map(len, ranks))
        assert [(rank.rank, rank.num_replicas) for rank in ranks] == [(number, 4) for number in range(4)]
        assert [rank.drop_last for rank in ranks] == [tail == "drop"] * 4


def test_node_sampler_is_the_c_librarys():
    sampler = NodeSampler(range(1000), seed=7, ring_seed=3, num_nodes=2, node=1, local_rank=0, local_world=2)
    place = ddpcache.Topology(1, 2, 0, 2)
    sampler.set_epoch(5)
    assert list(sampler) == list(ddpcache.Sampler(1000, seed=7, ring_seed=3, topology=place, epoch=5))
    assert sampler.node_size == 500


def test_epochs_differ_with_shuffle_and_not_without():
    shuffled, plain = NodeSampler(range(100)), NodeSampler(range(100), shuffle=False)
    first = list(shuffled), list(plain)
    shuffled.set_epoch(1)
    plain.set_epoch(1)
    assert list(shuffled) != first[0]
    assert list(plain) == first[1] == list(range(100))


def test_no_two_pairs_of_seed_and_epoch_share_an_order():
    """data#426: where the two are added up, seed 0 in epoch 1 is seed 1 in epoch 0."""
    orders = set()
    for seed, epoch in itertools.product(range(6), range(6)):
        sampler = NodeSampler(range(1000), seed=seed)
        sampler.set_epoch(epoch)
        orders.add(tuple(sampler))
    assert len(orders) == 36


def test_same_arguments_deal_the_same_again():
    """ffcv#140."""
    one, other = NodeSampler(range(1000), seed=9), NodeSampler(range(1000), seed=9)
    one.set_epoch(4)
    assert list(one) != list(other)
    other.set_epoch(4)
    assert list(one) == list(other)


def test_running_iteration_stays_in_its_epoch():
    sampler = NodeSampler(range(10_000))
    expected = list(sampler)
    running = iter(sampler)
    begun = [next(running) for _ in range(10)]
    sampler.set_epoch(1)
    assert [*begun, *running] == expected


@pytest.mark.parametrize("seed", [0, 2**64 - 1])
def test_sampler_can_be_pickled_and_copied(seed):
    sampler = NodeSampler(range(100), seed=seed)
    sampler.set_epoch(3)
    for twin in (pickle.loads(pickle.dumps(sampler)), copy.deepcopy(sampler)):
        assert list(twin) == list(sampler)


def test_layout_is_found_at_first_use(monkeypatch):
    sampler = NodeSampler(range(10))
    for name, value in zip(RANK_VARIABLES, (1, 4, 1, 2, 0, 2), strict=True):
        monkeypatch.setenv(name, str(value))
    assert sampler.topology == ddpcache.Topology(0, 2, 1, 2, 1, "torchrun")
    assert len(sampler) == 3


def test_contradictory_variables_are_an_error_at_first_use_that_lists_them(monkeypatch):
    monkeypatch.setenv("RANK", "5")
    monkeypatch.setenv("WORLD_SIZE", "4")
    sampler = NodeSampler(range(10))
    with pytest.raises(ddpcache.TopologyError, match="RANK=5.*WORLD_SIZE=4|WORLD_SIZE=4.*RANK=5"):
        list(sampler)


@pytest.mark.parametrize(
    "given, place",
    [
        ({"num_nodes": 2}, (1, 2, 1, 3)),
        ({"local_world": 2}, (2, 3, 0, 2)),
        ({"num_nodes": 2, "node": 0, "local_rank": 2}, (0, 2, 2, 3)),
        ({"num_nodes": 3, "node": 1, "local_rank": 1, "local_world": 2}, (1, 3, 1, 2)),
    ],
)
def test_numbers_of_the_user_come_first(monkeypatch, given, place):
    for name, value in {"RANK": 4, "WORLD_SIZE": 6, "LOCAL_RANK": 4, "LOCAL_WORLD_SIZE": 6}.items():
        monkeypatch.setenv(name, str(value))
    found = NodeSampler(range(10), **given).topology
    assert (found.node, found.nodes, found.local_rank, found.local_size) == place


def test_numbers_of_the_user_that_do_not_fit_are_an_error(monkeypatch):
    for name, value in {"RANK": 4, "WORLD_SIZE": 6, "LOCAL_RANK": 4, "LOCAL_WORLD_SIZE": 6}.items():
        monkeypatch.setenv(name, str(value))
    with pytest.raises(ddpcache.TopologyError, match="num_nodes=4.*local_world=1.*6"):
        list(NodeSampler(range(10), num_nodes=4))
    with pytest.raises(ddpcache.TopologyError, match=r"node=2 is not in 0\.\.1"):
        list(NodeSampler(range(10), num_nodes=2, node=2))


@pytest.mark.parametrize(
    "arguments, error, text",
    [
        ({"tail": "cut"}, ValueError, "'cut'"),
        ({"seed": -1}, ValueError, "-1"),
        ({"seed": 0.5}, TypeError, "0.5"),
        ({"ring_seed": 2**64}, ValueError, str(2**64)),
        ({"num_nodes": 0}, ValueError, "num_nodes.*0"),
        ({"node": -1}, ValueError, "node.*-1"),
        ({"local_rank": "1"}, TypeError, "'1'"),
        ({"cache": "name"}, TypeError, "'name'"),
    ],
)
def test_bad_arguments_are_errors_at_once(arguments, error, text):
    with pytest.raises(error, match=text):
        NodeSampler(range(10), **arguments)


def test_bad_epochs_are_errors_and_change_nothing():
    sampler = NodeSampler(range(10))
    sampler.set_epoch(2)
    for epoch, error in ((-1, IndexError), (2**40, IndexError), ("1", TypeError)):
        with pytest.raises(error):
            sampler.set_epoch(epoch)
    assert sampler.epoch == 2


def test_dropping_everything_is_an_error():
    with pytest.raises(ddpcache.EmptyError):
        list(NodeSampler(range(2), tail="drop", num_nodes=1, node=0, local_rank=0, local_world=3))


def test_data_set_with_a_cache_of_its_own_kind_is_left_alone():
    class WithCache(list):
        cache = {}

    assert list(NodeSampler(WithCache([1, 2, 3]), shuffle=False)) == [0, 1, 2]


def test_iterable_data_set_is_a_type_error():
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(range(3))

        def __len__(self):
            return 3

    with pytest.raises(TypeError, match="Stream.*IterableDataset"):
        NodeSampler(Stream())


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("batch_size", [1, 3, 5, 20])
def test_batch_sampler_cuts_its_sampler_into_batches(batch_size, drop_last):
    for sampler in (NodeSampler(range(17)), DistributedSampler(range(17), 1, 0)):
        batches = NodeBatchSampler(sampler, batch_size, drop_last)
        for epoch in range(2):
            batches.set_epoch(epoch)
            expected = list(torch.utils.data.BatchSampler(list(sampler), batch_size, drop_last))
            assert list(batches) == expected
            assert len(batches) == len(expected)
        assert (batches.epoch, batches.num_replicas, batches.rank) == (1, 1, 0)
        assert batches.real_size == 17


def test_batch_sampler_drives_a_loader():
    data = torch.utils.data.TensorDataset(torch.arange(17))
    loader = DataLoader(data, batch_sampler=NodeBatchSampler(NodeSampler(data), 4))
    assert sorted(torch.cat([batch for (batch,) in loader]).tolist()) == list(range(17))


@pytest.mark.parametrize(
    "foreign",
    [
        torch.utils.data.DistributedSampler(range(10), 2, 0),
        torch.utils.data.SequentialSampler(range(10)),
        range(10),
    ],
)
def test_batch_sampler_over_a_foreign_sampler_names_the_remedy(foreign):
    with pytest.raises(TypeError, match=rf"{type(foreign).__qualname__}.*use_distributed_sampler=False"):
        NodeBatchSampler(foreign, 4)


@pytest.mark.parametrize("batch_size, error", [(0, ValueError), (-3, ValueError), (2.5, TypeError), (True, TypeError)])
def test_bad_batch_sizes_are_errors(batch_size, error):
    with pytest.raises(error, match=str(batch_size)):
        NodeBatchSampler(NodeSampler(range(10)), batch_size)


def test_exact_tail_warns_of_unequal_ranks():
    sampler = NodeSampler(range(10), tail="exact", num_nodes=1, node=0, local_rank=0, local_world=3)
    with pytest.warns(UserWarning, match="10 samples over 3 ranks.*hangs"):
        list(sampler)


def test_nodes_keep_their_numbers_and_new_ones_take_what_is_free():
    ranks = [("a", None), ("a", None), ("b", None), ("b", None)]
    assert number_nodes(ranks) == {"a": 0, "b": 1}
    assert number_nodes([("b", 1), ("a", 0), ("b", 1), ("a", 0)]) == {"a": 0, "b": 1}
    assert number_nodes([("new", None), ("b", 1), ("a", 0)]) == {"a": 0, "b": 1, "new": 2}
    assert number_nodes([("new", None), ("c", 2), ("a", 0)]) == {"a": 0, "c": 2, "new": 1}


def test_claims_on_one_number_and_on_numbers_beyond_are_settled():
    assert number_nodes([("a", 1), ("b", 1)]) == {"a": 1, "b": 0}
    assert number_nodes([("a", 7), ("b", 0)]) == {"a": 1, "b": 0}
    ranks = [(name, random.Random(5).randrange(9)) for name in "abcdefg"]
    assert sorted(number_nodes(ranks).values()) == list(range(7))


def test_nodes_of_different_size_are_an_error():
    with pytest.raises(ddpcache.TopologyError, match="2, 1"):
        number_nodes([("a", None), ("a", None), ("b", None)])


def run_ranks(world, environment=None):
    """This file as `world` processes of a gloo group without a launcher's variables; what each printed."""
    rendezvous = f"/tmp/ddpcache-test-{os.getpid()}-{random.getrandbits(32)}"
    processes = [
        subprocess.Popen(
            [sys.executable, __file__, rendezvous, str(rank), str(world)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        for rank in range(world)
    ]
    outputs = [process.communicate(timeout=240)[0] for process in processes]
    Path(rendezvous).unlink(missing_ok=True)
    assert [process.returncode for process in processes] == [0] * world
    return [json.loads(output) for output in outputs]


def test_process_group_without_a_launcher_finds_nodes_by_machine_and_by_cache():
    """Four ranks: one machine; and as two nodes, each of which has a cache of its own, found again in another order."""
    for found in run_ranks(4):
        assert found["machine"] == [0, 1, found["rank"], 4]
        assert found["caches"] == [found["rank"] % 2, 2, found["rank"] // 2, 2]
        # The second job numbers its ranks the other way round.
        assert found["again"] == [found["rank"] % 2, 2, (3 - found["rank"]) // 2, 2]
        assert found["length_before_group"] == 12


def place_of(sampler):
    place = sampler.topology
    return [place.node, place.nodes, place.local_rank, place.local_size]


def rank_main(rendezvous, rank, world):
    import torch.distributed as dist

    early = NodeSampler(range(12))
    result = {"rank": rank, "length_before_group": len(early)}
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=world)
    assert len(early) == 3
    result["machine"] = place_of(early)
    name = f"test-torch-nodes-{os.path.basename(rendezvous)}-{rank % 2}"
    with ddpcache.Cache(name, length=12, fingerprint="test", capacity="1MiB", keep=True) as cache:
        result["caches"] = place_of(NodeSampler(range(12), cache=cache))
        dist.barrier()
        dist.destroy_process_group()
        other = f"{rendezvous}-again"
        dist.init_process_group("gloo", init_method=f"file://{other}", rank=world - 1 - rank, world_size=world)
        result["again"] = place_of(NodeSampler(range(12), cache=cache))
        dist.barrier()
        if rank < 2:
            from ddpcache.torch._topology import number_file

            number_file(cache).unlink()
            ddpcache.Cache.unlink(name)
        dist.destroy_process_group()
        Path(other).unlink(missing_ok=True)
    print(json.dumps(result))


if __name__ == "__main__":
    rank_main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
