"""Which job this process belongs to: one number that all its processes on a machine share, workers included."""

from __future__ import annotations

import hashlib
import os
import secrets

_VARIABLE = "DDPCACHE_JOB"
# The first variable that is set decides. torchrun's id is "none" unless it was given one.
_LAUNCHERS = (
    ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"),
    ("RAY_JOB_ID", "RAY_RAYLET_PID"),  # before Slurm's, in one of whose jobs a cluster may run many
    ("SLURM_JOB_ID", "SLURM_STEP_ID"),
    ("PMIX_NAMESPACE",),
    ("OMPI_MCA_ess_base_jobid",),
    (_VARIABLE,),
)


def _launcher_key() -> str | None:
    for names in _LAUNCHERS:
        values = [os.environ.get(name, "") for name in names]
        if values[0] not in ("", "none"):
            return f"{names[0]}={':'.join(values)}"
    return None


def _torchrun_agent() -> str | None:
    """torchrun without an id: the process that started all ranks of this machine, and when it started."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return None
    parent = os.getppid()
    try:
        with open(f"/proc/{parent}/stat", encoding="ascii", errors="replace") as stat:
            started = stat.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None
    return f"{parent}:{started}"


def job_id() -> int:
    """A number from 1 to 2**64 - 1, the same in all processes of one job on this machine.

    It comes from the variables of torchrun, Ray, Slurm, PMIx or Open MPI. Without any, the first call of a process sets
    the variable DDPCACHE_JOB, which the processes that it starts later inherit. Never blocks.
    """
    key = _launcher_key()
    if key is None:
        os.environ[_VARIABLE] = value = _torchrun_agent() or secrets.token_hex(8)
        key = f"{_VARIABLE}={value}"
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "little") or 1
