"""LightningCallback under real trainers of two ranks: what it logs, checks, fills first and resumes."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

JOB = Path(__file__).with_name("lightning_job.py")
TRAIN, VALIDATION, BATCH, RANKS, EPOCHS = 48, 20, 4, 2, 3
BATCHES = TRAIN // (BATCH * RANKS)
CASES = [
    "logs",
    "logs_workers",
    "warm_up",
    "one_cache",
    "nested",
    "resume",
    "resume_without",
    "resume_at_ends",
    "save_twice",
    "save_for_others",
    "not_dealt",
    "pytorch_lightning",
    "twice",
]
CASES_ALONE = ["resume_alone", "resume_other_loaders"]


def run(name, folder, command):
    environment = {key: value for key, value in os.environ.items() if key not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    environment |= {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=550, cwd=folder)
    assert done.returncode == 0, done.stderr[-3000:]
    assert not list(Path("/dev/shm").glob(f"ddpcache.{os.getuid()}.{name}*"))


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """What the two ranks, and then a single process, report of each case."""
    folder, name = tmp_path_factory.mktemp("lightning"), f"fw-{os.getpid()}-{secrets.token_hex(4)}"
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={RANKS}"]
    run(name, folder, [*torchrun, JOB, folder, name, *CASES])
    run(name, folder, [sys.executable, JOB, folder, name, *CASES_ALONE])
    told = {who: json.loads((folder / f"{name}-{who}.json").read_text()) for who in ("0", "1", "alone")}
    cases = {case: [told["0"][case], told["1"][case]] for case in CASES}
    return cases | {case: told["alone"][case] for case in CASES_ALONE}


def flat(batches):
    return [index for _, _, indices in batches for index in indices]


@pytest.mark.parametrize("case", ["logs", "logs_workers", "warm_up", "pytorch_lightning"])
def test_any_logger_and_monitor_is_given_hit_rate_and_throughput_of_all_ranks(ranks, case):
    warm = case in ("warm_up", "pytorch_lightning")
    first, second = ranks[case]
    values = first["values"]
    assert values[1:] == second["values"][1:]  # all ranks have those of all; loggers write them on rank 0
    if warm:
        filled, *values = values
        assert filled["ddpcache/warm_up_decoded"] == TRAIN and filled["ddpcache/warm_up_seconds"] > 0
    assert len(values) == 2 * EPOCHS
    training = [value for value in values if "ddpcache/hit_rate" in value]
    validation = [value for value in values if "ddpcache/val_hit_rate" in value]
    assert [value["ddpcache/decoded"] for value in training] == [0 if warm else TRAIN, 0, 0]
    assert [value["ddpcache/hit_rate"] for value in training] == [1 if warm else 0, 1, 1]
    assert [value["ddpcache/val_decoded"] for value in validation] == [VALIDATION, 0, 0]
    assert [value["ddpcache/val_hit_rate"] for value in validation] == [0, 1, 1]
    for value in training:
        assert 0 < value["ddpcache/samples_per_second"] < 1e7
        # A sample is one number of 4 bytes.
        assert value["ddpcache/bytes_per_second"] == pytest.approx(4 * value["ddpcache/samples_per_second"], rel=1e-5)
    for rank in (first, second):
        # On every rank, so that callbacks can monitor them.
        assert rank["monitored"]["ddpcache/hit_rate"] == 1
        assert rank["monitored"] == first["monitored"]


def test_training_validation_and_test_are_told_apart_in_one_cache(ranks):
    values = ranks["one_cache"][0]["values"]
    training = [value["ddpcache/mine/decoded"] for value in values if "ddpcache/mine/decoded" in value]
    validation = [value["ddpcache/mine/val_decoded"] for value in values if "ddpcache/mine/val_decoded" in value]
    # Lightning's sanity check has read 2 batches of each rank before.
    assert training == [TRAIN, 0, 0] and validation == [VALIDATION - 2 * BATCH * RANKS, 0, 0]
    assert [value["ddpcache/mine/test_hit_rate"] for value in values if "ddpcache/mine/test_hit_rate" in value] == [1]


def test_a_sampler_that_another_one_holds_goes_to_the_epoch_too(ranks):
    for rank in ranks["nested"]:
        assert rank["nested"] == rank["node"]
        epochs = [flat(batch for batch in rank["nested"] if batch[0] == epoch) for epoch in range(EPOCHS)]
        assert len(set(map(tuple, epochs))) == EPOCHS


def test_samples_that_are_dealt_twice_are_an_error_that_names_both_and_the_option(ranks):
    for rank in ranks["twice"]:
        assert rank["error"].startswith("DealtTwiceError: samples are dealt to the ranks 2 times, by ")
        assert "ddpcache.torch._samplers.NodeSampler and then by lightning." in rank["error"]
        assert "DistributedSamplerWrapper" in rank["error"] and "use_distributed_sampler=False" in rank["error"]


def test_samples_that_nobody_deals_are_warned_of(ranks):
    first, second = (rank["warnings"] for rank in ranks["not_dealt"])
    assert len(first) == 1 and "each of the 2 ranks reads all of them" in first[0] and second == []


def rest_of(whole, step):
    """What a run trains on after a number of steps."""
    return whole["seen"][step:]


@pytest.mark.parametrize("kind", ["node 0", "node 1", "torch 1", "viscy 0", "batch 1", "cached 1"])
def test_a_run_goes_on_in_the_middle_of_an_epoch_as_if_it_had_not_stopped(ranks, kind):
    for rank in ranks["resume"]:
        whole, rest = rank[kind]["whole"], rank[kind]["rest"]
        assert len(whole["seen"]) == EPOCHS * BATCHES
        assert rest["seen"] == rest_of(whole, BATCHES + 2)
        assert rest["validated"] == [batch for batch in whole["validated"] if batch[0] > 0]
        assert rest["steps"] == whole["steps"]


def test_without_the_callback_it_does_not(ranks):
    for rank in ranks["resume_without"]:
        assert rank["rest"]["seen"] != rest_of(rank["whole"], BATCHES + 2)


@pytest.mark.parametrize("when", ["epoch", "validation", "last batch"])
def test_a_checkpoint_at_the_end_of_an_epoch_goes_on_with_the_next(ranks, when):
    for rank in ranks["resume_at_ends"]:
        assert rank[when]["rest"]["seen"] == rest_of(rank[when]["whole"], 2 * BATCHES)


def test_an_epoch_is_stopped_and_resumed_twice(ranks):
    for rank in ranks["save_twice"]:
        assert rank["rest"]["seen"] == rest_of(rank["whole"], BATCHES + 4)
        assert rank["rest"]["steps"] == rank["whole"]["steps"]


def test_another_number_of_ranks_trains_on_what_the_epoch_had_left_and_nothing_else(ranks):
    """Two ranks have trained on 2 of 6 batches of epoch 1; one process has 32 samples left, so 8 batches."""
    before = [batch for rank in ranks["save_for_others"] for batch in rank["seen"] if batch[:2] in ([1, 0], [1, 1])]
    alone = ranks["resume_alone"]
    rest = [batch for batch in alone["seen"] if batch[0] == 1]
    assert sorted(flat(before) + flat(rest)) == list(range(TRAIN))
    assert [number for _, number, _ in rest] == list(range(2, 10))
    last = [batch for batch in alone["seen"] if batch[0] == 2]
    assert sorted(flat(last)) == list(range(TRAIN)) and len(last) == TRAIN // BATCH
    for epoch in (1, 2):
        assert sorted(flat(batch for batch in alone["validated"] if batch[0] == epoch)) == list(range(VALIDATION))


def test_a_checkpoint_of_other_loaders_is_an_error(ranks):
    assert ranks["resume_other_loaders"]["error"].startswith(
        "StateError: the checkpoint has 1 states of samplers for 1 loaders, and there are 0 samplers"
    )
