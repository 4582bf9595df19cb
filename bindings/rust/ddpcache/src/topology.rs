//! Where this process stands in its job.

use ddpcache_sys as ffi;

use crate::error::{explained, library_fits, Result};
use crate::output::output;

/// Which launcher's variables described the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Launcher {
    /// No variables: one process on one node.
    None,
    /// torchrun, or anything that sets RANK and WORLD_SIZE.
    Torchrun,
    /// Open MPI's mpirun.
    OpenMpi,
    /// MPICH, Intel MPI and others that speak PMI.
    Mpi,
    /// srun.
    Slurm,
    /// Lightning's own launcher.
    Lightning,
    /// One that this version of the crate does not know.
    Unknown,
}

/// Where this process stands: `nodes` machines of `local_size` processes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Whose variables said so.
    pub launcher: Launcher,
    /// The launcher's number of this process, less than `world_size`.
    pub rank: u32,
    /// Processes of the job.
    pub world_size: u32,
    /// This node's number, less than `nodes`.
    pub node: u32,
    /// Nodes of the job.
    pub nodes: u32,
    /// This process on its node, less than `local_size`.
    pub local_rank: u32,
    /// Processes on this node, the same on every node.
    pub local_size: u32,
}

impl Topology {
    /// Process `local_rank` of `local_size` on node `node` of `nodes`, numbered node after node.
    pub fn new(node: u32, nodes: u32, local_rank: u32, local_size: u32) -> Topology {
        Topology {
            launcher: Launcher::None,
            rank: node.saturating_mul(local_size).saturating_add(local_rank),
            world_size: nodes.saturating_mul(local_size),
            node,
            nodes,
            local_rank,
            local_size,
        }
    }

    /// Reads the layout from the variables that launchers set: torchrun, Lightning, Open MPI,
    /// MPICH and other PMI, Slurm. Without any this is the only process.
    ///
    /// [`Topology`](crate::ErrorKind::Topology), with the variables that were found and their
    /// values, where they contradict each other or leave a count unknown. Never blocks. No other
    /// thread may be changing the environment: the library reads it as C does.
    pub fn detect() -> Result<Topology> {
        library_fits()?;
        let raw = output(|raw: *mut ffi::dc_topology| {
            // SAFETY: `raw` is ours, and says how long it is. A change of the environment beside
            // other threads is the changer's fault: see std::env::set_var.
            explained(|error| unsafe { ffi::dc_topology_detect(raw, error) })
        })?;
        let launcher = match raw.launcher {
            ffi::DC_LAUNCHER_NONE => Launcher::None,
            ffi::DC_LAUNCHER_TORCHRUN => Launcher::Torchrun,
            ffi::DC_LAUNCHER_OPEN_MPI => Launcher::OpenMpi,
            ffi::DC_LAUNCHER_MPI => Launcher::Mpi,
            ffi::DC_LAUNCHER_SLURM => Launcher::Slurm,
            ffi::DC_LAUNCHER_LIGHTNING => Launcher::Lightning,
            _ => Launcher::Unknown,
        };
        Ok(Topology {
            launcher,
            rank: raw.rank,
            world_size: raw.world_size,
            node: raw.node,
            nodes: raw.nodes,
            local_rank: raw.local_rank,
            local_size: raw.local_size,
        })
    }
}
