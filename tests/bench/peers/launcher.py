"""Runs one way: starts its ranks, real processes in a gloo group, which read epochs as it is told on standard input.

    launcher.py WAY FOLDER

A command is a line of JSON, and so is its answer on standard output. Every run of a way has this process, which has
imported what the way needs, as the parent of its ranks.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import multiprocessing
import os
import shutil
import sys
import time
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import memory
import torch
import torch.distributed as dist
from images import KINDS, Reader, decodes
from ways import WAYS, Job, Way

context = multiprocessing.get_context("fork")


def serve_rank(way: Way, module: Any, job: Job, shared: Any, rank: int, wire: Connection) -> None:
    """A rank: its first epoch, and then what it is told to read."""
    atexit._clear()  # what the launcher registered is the launcher's
    os.environ |= {"RANK": f"{rank}", "LOCAL_RANK": f"{rank}", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
    os.environ |= {"WORLD_SIZE": f"{job.ranks}", "LOCAL_WORLD_SIZE": f"{job.ranks}"}
    try:
        store = f"file://{job.folder / 'gloo'}"
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size=job.ranks)
        reader = Reader(job.images)
        dist.barrier()
        begin = time.monotonic()
        opened = module.open(job, shared, way.option)
        numbers: list[int] = []
        count = reader.epoch(opened.loader, lambda some: numbers.extend(some.tolist()))
        wire.send((begin, time.monotonic(), count, reader.bytes, numbers))
        epoch = 0
        while epochs := wire.recv():
            count = reader.bytes = 0
            begin = time.monotonic()
            for _ in range(epochs):
                epoch += 1
                opened.set_epoch(epoch)
                count += reader.epoch(opened.loader)
            wire.send((begin, time.monotonic(), count, reader.bytes))
        opened.loader = None  # its workers end
        gc.collect()
        opened.close()
        del opened
        gc.collect()
        dist.destroy_process_group()
        atexit._run_exitfuncs()  # a forked process does not run them by itself, and streaming removes its files there
    except BaseException:
        wire.send(traceback.format_exc())
        raise


class Run:
    """The ranks of one run."""

    def __init__(self, way: Way, module: Any, job: Job) -> None:
        self.module, self.job = module, job
        begin = time.monotonic()
        self.shared = module.prepare(job, way.option)
        self.prepare_seconds = time.monotonic() - begin
        self.ranks, self.wires = [], []
        for rank in range(job.ranks):
            mine, theirs = context.Pipe()
            process = context.Process(target=serve_rank, args=(way, module, job, self.shared, rank, theirs))
            process.start()
            theirs.close()
            self.ranks.append(process)
            self.wires.append(mine)

    def answers(self) -> list[tuple]:
        """One of each rank, whichever comes first: one that failed may keep others waiting."""
        found: dict[int, tuple] = {}
        while len(found) < len(self.wires):
            for wire in multiprocessing.connection.wait([w for i, w in enumerate(self.wires) if i not in found]):
                rank = self.wires.index(wire)
                try:
                    answer = wire.recv()
                except EOFError:
                    raise RuntimeError(f"rank {rank} ended without a word") from None
                if isinstance(answer, str):
                    raise RuntimeError(answer)
                found[rank] = answer
        return [found[rank] for rank in range(len(self.wires))]

    def first(self) -> dict[str, Any]:
        answers = self.answers()
        numbers = [number for *_, some in answers for number in some]
        return {
            **summary([answer[:4] for answer in answers]),
            "prepare_seconds": self.prepare_seconds,
            "different": len(set(numbers)),
        }

    def epochs(self, count: int) -> dict[str, Any]:
        for wire in self.wires:
            wire.send(count)
        return summary(self.answers())

    def memory(self) -> dict[str, Any]:
        return {**memory.measure(os.getpid(), self.job.stores), "decodes": decodes(self.job.log)}

    def stop(self) -> dict[str, Any]:
        for wire in self.wires:
            wire.send(0)
        for rank in self.ranks:
            rank.join()
        self.module.finish(self.shared)
        shutil.rmtree(self.job.folder)
        if any(codes := [rank.exitcode for rank in self.ranks]):
            raise RuntimeError(f"ranks ended with {codes}")
        return {}


def summary(answers: list[tuple]) -> dict[str, Any]:
    """From the first rank's begin to the last one's end."""
    begins, ends, counts, sizes = zip(*answers, strict=True)
    return {"seconds": max(ends) - min(begins), "samples": sum(counts), "bytes": sum(sizes)}


def start(way: Way, module: Any, command: dict) -> Run:
    folder = Path(command["folder"])
    folder.mkdir(parents=True)
    kind = KINDS[command["kind"]].scaled(command["scale"])
    images = Path(command["images"])
    return Run(way, module, Job(kind, images, folder, command["ranks"], command["workers"], command["name"]))


def main() -> None:
    # Commands and answers have descriptors of their own; what a package prints goes where errors go.
    commands, answers = sys.stdin, os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    os.environ["TMPDIR"] = sys.argv[2]
    way = WAYS[sys.argv[1]]
    torch.set_num_threads(1)
    module = importlib.import_module(way.module)
    gc.collect()
    gc.freeze()  # less of what was imported is copied by ranks
    print(json.dumps({}), file=answers, flush=True)
    run: Run | None = None
    for line in commands:
        command = json.loads(line)
        try:
            match command["do"]:
                case "start":
                    run = start(way, module, command)
                    result = run.first()
                case "epochs":
                    result = run.epochs(command["count"])
                case "memory":
                    result = run.memory()
                case "stop":
                    stopped, run = run, None
                    result = stopped.stop()
        except Exception as error:
            result = {"error": str(error).strip().splitlines()[-1], "trace": traceback.format_exc()}
        print(json.dumps(result), file=answers, flush=True)
    if run is not None:  # whoever gave the commands has gone
        run.stop()


if __name__ == "__main__":
    main()
