/* ddpcache/sampler.h: which samples a training process reads in an epoch, and in which order.
 *
 * A sampler deals the indices 0..length-1 of a data set to the ranks of a distributed training run. Its default order,
 * DC_ORDER_NODE, shuffles anew each epoch without moving samples between machines, so that what a machine has cached stays
 * useful: every node owns one fixed part of the data set, a *window*, and its ranks share a fresh permutation of it.
 * DC_ORDER_TORCH and DC_ORDER_VISCY reproduce two well-known samplers to the bit.
 *
 *     dc_topology topology = {sizeof topology};
 *     dc_sampler_options options;
 *     dc_sampler *sampler;
 *     dc_error error;
 *     if (dc_topology_detect(&topology, &error)) { puts(error.message); exit(1); }
 *     dc_sampler_options_init(&options, sizeof options);
 *     options.length = 60000;
 *     options.node = topology.node;
 *     options.nodes = topology.nodes;
 *     options.local_rank = topology.local_rank;
 *     options.local_size = topology.local_size;
 *     if (dc_sampler_open(&options, &sampler, &error)) { puts(error.message); exit(1); }
 *     for (int64_t epoch = 0; epoch < 5; ++epoch) {
 *       dc_sampler_set_epoch(sampler, epoch, NULL);
 *       for (int64_t index; dc_sampler_next(sampler, &index) == DC_OK;) train_on(index);
 *     }
 *     dc_sampler_close(sampler);
 *
 * Words. A *node* is one machine, a *rank* one training process. There are `nodes` nodes of `local_size` ranks each; local
 *   rank j of node k has number k * local_size + j. A *position* counts the samples of one rank in one epoch from 0.
 * Threads. Calls that take a const handle may be made by any number of threads at once. The others (set_epoch, next, seek,
 *   close) need the handle to themselves. Different handles have nothing in common.
 * Processes and fork. A handle is ordinary memory of the process: a forked child has an independent copy and may use
 *   all of it, whatever the parent was doing. There are no files, no locks and no network: ranks agree because they compute
 *   the same.
 * Cost. NODE: constant memory (under 40 KiB), constant time for every call; see dc_sampler_read for batches. TORCH and VISCY
 *   with shuffle draw their epoch's order at its first use: see dc_sampler_read.
 * Repeatability. The orders depend on the options and the epoch alone: not on processor, compiler, number of calls or
 *   release of the library. A release that had to change NODE would change DC_SAMPLER_ALGORITHM_VERSION.
 *
 * Caveats, each with its remedy:
 *   - All ranks must be given the same options but for `node` and `local_rank`, and the same epoch: nobody checks it here.
 *     Compare a hash of the options over the process group where you have one.
 *   - Epochs look alike if nobody calls dc_sampler_set_epoch. Call it at the start of each.
 *   - DC_TAIL_EXACT can give ranks different numbers of samples, and a collective operation that one rank does not reach
 *     hangs. Use PAD, and mask metrics by dc_sampler_real_size.
 *   - A node's window follows its number. Launchers may renumber the machines of a restarted job; then each computes
 *     correctly but finds another's samples in its cache. Keep node numbers fixed to machines.
 *   - The orders are for statistics, not for secrecy: an observer can predict them. */
#ifndef DDPCACHE_SAMPLER_H
#define DDPCACHE_SAMPLER_H

#include "ddpcache/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A sampler of one rank. Opaque. */
typedef struct dc_sampler dc_sampler;

/** A keyed bijection of 0..length-1. Opaque. */
typedef struct dc_permutation dc_permutation;

/** Version of NODE's order and of dc_permutation. Two libraries with the same number deal the same. */
#define DC_SAMPLER_ALGORITHM_VERSION 1

/* ---- Limits. ---- */

#define DC_SAMPLER_LENGTH_MAX 4611686018427387904 /* samples of a data set, and length of a permutation: 2^62 */
#define DC_SAMPLER_EPOCH_MAX 1099511627775        /* last epoch: 2^40 - 1 */
#define DC_SAMPLER_WORLD_MAX 16777216             /* ranks: nodes * local_size at most 2^24 */

/* ---- Topology. ---- */

/** Which launcher's variables described the layout. */
enum dc_launcher {
  DC_LAUNCHER_NONE = 0,     /**< no variables: one process on one node */
  DC_LAUNCHER_TORCHRUN = 1, /**< torchrun, torch.distributed.launch, or anything that sets RANK and WORLD_SIZE */
  DC_LAUNCHER_OPEN_MPI = 2, /**< Open MPI's mpirun */
  DC_LAUNCHER_MPI = 3,      /**< MPICH, Intel MPI and others that speak PMI */
  DC_LAUNCHER_SLURM = 4,    /**< srun */
  DC_LAUNCHER_LIGHTNING = 5 /**< Lightning's own launcher, which sets NODE_RANK, LOCAL_RANK and WORLD_SIZE */
};

/** Where this process stands. Set `struct_size` to sizeof(dc_topology) before the call. */
typedef struct dc_topology {
  uint32_t struct_size; /**< set by the caller */
  int32_t launcher;     /**< one of dc_launcher */
  uint32_t rank;        /**< the launcher's number of this process, 0..world_size-1 */
  uint32_t world_size;  /**< processes of the job: nodes * local_size */
  uint32_t node;        /**< this node's number, 0..nodes-1 */
  uint32_t nodes;       /**< nodes of the job */
  uint32_t local_rank;  /**< this process on its node, 0..local_size-1 */
  uint32_t local_size;  /**< processes on this node, the same on every node */
} dc_topology;

/** Reads the layout of the job from the environment variables that launchers set.
 *
 *  The first of these groups that has any variable decides, since launchers nest and the inner one is nearer to the truth:
 *    torchrun:  RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK, GROUP_WORLD_SIZE
 *    Lightning: NODE_RANK, LOCAL_RANK, WORLD_SIZE (without RANK)
 *    Open MPI:  OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE, OMPI_COMM_WORLD_LOCAL_RANK, OMPI_COMM_WORLD_LOCAL_SIZE
 *    PMI:       PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS
 *    Slurm:     SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, SLURM_NODEID, SLURM_NNODES, SLURM_TASKS_PER_NODE,
 *               SLURM_NTASKS_PER_NODE, and where srun set them the SLURM_STEP_ forms, which then count
 *  What that group leaves open is taken from a later group, provided that both agree on rank and world size; and MASTER_ADDR
 *  on the loopback interface means one node, since no other could reach it. A node number that no variable gives follows
 *  from the rank where ranks are numbered node after node. With no variables at all this is the only process: node 0
 *  of 1, rank 0 of 1.
 *
 *  Caveat: a shell in a Slurm allocation, or a batch script, carries the job's variables too. Start the program with srun,
 *  or unset SLURM_PROCID.
 *
 *  @param topology  receives the layout; its struct_size says how much of it
 *  @param error     optional; on DC_ERROR_TOPOLOGY the message lists the variables that were found, with their values
 *  @return DC_OK; DC_ERROR_TOPOLOGY where variables are no numbers, contradict each other, leave a count unknown or say
 *          that nodes have different numbers of processes; DC_ERROR_ARGUMENT for NULL or an impossible struct_size.
 *  Never blocks. Must not run while another thread changes the environment. @since 0.1 */
DC_API int32_t dc_topology_detect(dc_topology *topology, dc_error *error);

/* ---- Opening a sampler. ---- */

/** How the indices are ordered and dealt. */
enum dc_order {
  /** Windows that stay on their node, each shuffled anew every epoch. The whole data set is first laid on a ring by a
   *  permutation that depends on `ring_seed` alone, so that a sorted data set is spread over the nodes. Node k owns ring
   *  positions floor(k*length/nodes) up to floor((k+1)*length/nodes), and local rank j takes positions j, j+local_size,
   *  j+2*local_size, ... of the window's order. */
  DC_ORDER_NODE = 0,
  /** torch.utils.data.DistributedSampler of torch 2.13 and 2.14, to the bit: one permutation of everything, dealt to all ranks
   *  in turn. Any rank may get any sample in any epoch. Of seed + epoch the low 32 bits count, as in torch. */
  DC_ORDER_TORCH = 1,
  /** VisCy's ShardedDistributedSampler, to the bit: each rank shuffles a contiguous block of its own. Without shuffle it is
   *  TORCH. */
  DC_ORDER_VISCY = 2
};

/** What happens where the samples do not divide evenly among the ranks. */
enum dc_tail {
  DC_TAIL_PAD = 0,  /**< every rank gets ceil(length/ranks), some samples being repeated; the default */
  DC_TAIL_DROP = 1, /**< every rank gets floor(length/ranks), some samples being left out of the epoch */
  DC_TAIL_EXACT = 2 /**< every sample once; ranks differ by at most one sample. NODE only */
};

/** What a sampler shall be. Initialise with dc_sampler_options_init, then set at least `length` and the layout. */
typedef struct dc_sampler_options {
  uint32_t struct_size;     /**< set by dc_sampler_options_init */
  int32_t order;            /**< one of dc_order; default DC_ORDER_NODE */
  int32_t tail;             /**< one of dc_tail; default DC_TAIL_PAD */
  uint32_t shuffle;         /**< 1 (default): a new order each epoch; 0: the same, unshuffled one */
  uint32_t node;            /**< this node, 0..nodes-1; default 0 */
  uint32_t nodes;           /**< nodes, >= 1; default 1 */
  uint32_t local_rank;      /**< this rank on its node, 0..local_size-1; default 0 */
  uint32_t local_size;      /**< ranks on each node, >= 1; default 1 */
  int64_t length;           /**< samples of the data set, 0..DC_SAMPLER_LENGTH_MAX; default 0 */
  uint64_t seed;            /**< of the epochs' orders; any value; default 0 */
  uint64_t ring_seed;       /**< of NODE's ring; another one moves samples between nodes; default 0 */
  uint32_t ring_identity;   /**< 1: NODE's ring is the data set's own order, so that windows are contiguous; default 0.
                                 With one node the ring is always the data set's own order */
  uint32_t exchange_ppm;    /**< reserved for moving windows: must be 0 in this version */
  uint32_t canonical_nodes; /**< reserved for layouts independent of `nodes`: must be 0 in this version */
  uint32_t reserved;        /**< must be 0 */
} dc_sampler_options;

/** Sets every option to its default.
 *
 *  @param options      memory of the caller's
 *  @param struct_size  sizeof(dc_sampler_options) as the caller was compiled
 *  @return DC_OK; DC_ERROR_ARGUMENT for NULL or an impossible size. Never blocks. @since 0.1 */
DC_API int32_t dc_sampler_options_init(dc_sampler_options *options, uint32_t struct_size);

/** Opens a sampler, at position 0 of epoch 0.
 *
 *  For TORCH and VISCY only the rank's number node * local_size + local_rank matters: where a launcher numbers ranks
 *  otherwise, give one node, and its rank and world size as local_rank and local_size.
 *
 *  @param options  what the sampler shall be; copied
 *  @param sampler  receives the handle, which the caller closes with dc_sampler_close; unchanged after an error
 *  @param error    optional
 *  @return DC_OK; DC_ERROR_ARGUMENT for NULL, an impossible struct_size, an unknown order or tail, a flag that is neither 0
 *          nor 1, or DC_TAIL_EXACT with an order other than NODE; DC_ERROR_RANGE for a length, node, rank or world size
 *          outside its range; DC_ERROR_EMPTY where NODE with DC_TAIL_DROP leaves no rank a sample (TORCH and VISCY then deal
 *          nothing, as the originals do); DC_ERROR_UNSUPPORTED for an option of a later version; DC_ERROR_NO_MEMORY.
 *  Never blocks. @since 0.1 */
DC_API int32_t dc_sampler_open(const dc_sampler_options *options, dc_sampler **sampler, dc_error *error);

/** Frees a sampler. NULL is allowed and does nothing. Never blocks. @since 0.1 */
DC_API void dc_sampler_close(dc_sampler *sampler);

/* ---- Reading in order. ---- */

/** Goes to position 0 of an epoch. Sizes do not change with the epoch. Constant time.
 *
 *  @param epoch  0..DC_SAMPLER_EPOCH_MAX
 *  @param error  optional
 *  @return DC_OK; DC_ERROR_ARGUMENT for NULL; DC_ERROR_RANGE. Never blocks. @since 0.1 */
DC_API int32_t dc_sampler_set_epoch(dc_sampler *sampler, int64_t epoch, dc_error *error);

/** The index at the current position, which then advances by one.
 *
 *  @param index  receives a sample number, 0..length-1; unchanged unless DC_OK
 *  @return DC_OK; DC_END when the rank has had all its samples of this epoch; DC_ERROR_ARGUMENT for NULL; DC_ERROR_NO_MEMORY
 *          as for dc_sampler_read. Never blocks. @since 0.1 */
DC_API int32_t dc_sampler_next(dc_sampler *sampler, int64_t *index);

/** Where the sampler stands.
 *
 *  @param epoch     optional; receives the epoch
 *  @param position  optional; receives the position that dc_sampler_next reads next, 0..size
 *  @return DC_OK; DC_ERROR_ARGUMENT for a NULL sampler. Never blocks. @since 0.1 */
DC_API int32_t dc_sampler_tell(const dc_sampler *sampler, int64_t *epoch, int64_t *position);

/** Sets the position of the next dc_sampler_next. Constant time.
 *
 *  @param position  0..size; at size the next read is DC_END
 *  @param error     optional
 *  @return DC_OK; DC_ERROR_ARGUMENT for NULL; DC_ERROR_RANGE. Never blocks. @since 0.1 */
DC_API int32_t dc_sampler_seek(dc_sampler *sampler, int64_t position, dc_error *error);

/* ---- Random access. ---- */

/** How many samples this rank is dealt in each epoch.
 *
 *  @param size  receives the number
 *  @return DC_OK; DC_ERROR_ARGUMENT for NULL. Never blocks. @since 0.1 */
DC_API int32_t dc_sampler_size(const dc_sampler *sampler, int64_t *size);

/** How many of this rank's samples are no repeats. They come first: over all ranks, positions 0..real_size-1 hold each
 *  sample that is dealt exactly once, so a metric that counts only these is exact.
 *
 *  @param size   receives the number, 0..size
 *  @param error  optional
 *  @return DC_OK; DC_ERROR_ARGUMENT for NULL; DC_ERROR_UNSUPPORTED for a shuffled VISCY sampler with DC_TAIL_PAD whose length
 *          the ranks do not divide: its repeats lie scattered. Evaluate without shuffle. Never blocks. @since 0.1 */
DC_API int32_t dc_sampler_real_size(const dc_sampler *sampler, int64_t *size, dc_error *error);

/** Copies the indices at `count` positions from `position` on. Does not move the current position.
 *
 *  Cost. NODE computes each index from its position and keeps nothing: about a nanosecond each in batches of some hundreds with
 *  AVX2 or AVX-512, some 50 ns for one by itself.
 *  Shuffled TORCH and VISCY first draw the epoch's order if no call of this epoch has: TORCH takes O(length) time and, while
 *  it draws, 4 bytes a sample of memory (8 from 2^32 samples on), of which it keeps this rank's share; VISCY takes O(length)
 *  time in the worst case, but 4 (8) bytes for each sample of its own block only.
 *
 *  @param position  0..size
 *  @param indices   memory for `count` indices; unchanged after an error; may be NULL if count is 0
 *  @param count     0..size-position
 *  @param error     optional
 *  @return DC_OK; DC_ERROR_ARGUMENT for NULL; DC_ERROR_RANGE; DC_ERROR_NO_MEMORY. Never blocks. @since 0.1 */
DC_API int32_t dc_sampler_read(const dc_sampler *sampler, int64_t position, int64_t *indices, int64_t count,
                               dc_error *error);

/** The first place of an index in this epoch: the inverse of dc_sampler_read, for all ranks.
 *
 *  Of several places of a repeated index it is the one that is no repeat; where blocks of shuffled VISCY overlap, that of
 *  the lowest rank. Constant time with NODE and without shuffle; shuffled TORCH draws the whole order anew (O(length) time
 *  and memory), VISCY one rank's block.
 *
 *  @param index     0..length-1
 *  @param rank      receives the rank that has it, node * local_size + local_rank; unchanged unless DC_OK
 *  @param position  receives the position there; unchanged unless DC_OK
 *  @param error     optional
 *  @return DC_OK; DC_END where DC_TAIL_DROP leaves the index out of this epoch; DC_ERROR_ARGUMENT for NULL;
 *          DC_ERROR_RANGE; DC_ERROR_NO_MEMORY. Never blocks. @since 0.1 */
DC_API int32_t dc_sampler_find(const dc_sampler *sampler, int64_t index, uint32_t *rank, int64_t *position,
                               dc_error *error);

/* ---- What a node holds. ---- */

/** How many samples this node holds: those its ranks are dealt, whatever the epoch, other nodes' samples that pad its tail
 *  not counted. It is what the node's cache needs room for.
 *
 *  NODE: its window, also where unshuffled DROP never reaches the window's end. Shuffled TORCH: the whole data set. Shuffled
 *  VISCY: its ranks' blocks. TORCH and VISCY without shuffle: its ranks' samples.
 *
 *  @param size  receives the number, 0..length
 *  @return DC_OK; DC_ERROR_ARGUMENT for NULL. Never blocks. @since 0.1 */
DC_API int32_t dc_sampler_shard_size(const dc_sampler *sampler, int64_t *size);

/** Copies `count` of the indices that this node holds, each of which occurs once, for filling a cache ahead of time.
 *
 *  Their order is fixed and the same for all ranks of the node, so local rank j of L can take every L-th page. It does not
 *  depend on the epoch. Constant time an index.
 *
 *  @param position  0..shard size: where in the shard to begin
 *  @param indices   memory for `count` indices; unchanged after an error; may be NULL if count is 0
 *  @param count     0..shard size - position
 *  @param error     optional
 *  @return DC_OK; DC_ERROR_ARGUMENT for NULL; DC_ERROR_RANGE. Never blocks. @since 0.1 */
DC_API int32_t dc_sampler_shard_read(const dc_sampler *sampler, int64_t position, int64_t *indices, int64_t count,
                                     dc_error *error);

/* ---- The permutation by itself. ---- */

/** What a permutation is for. Equal other keys give unrelated permutations for different purposes. */
enum dc_purpose {
  DC_PURPOSE_RING = 1,  /**< NODE's ring: seed is ring_seed, epoch and window are 0 */
  DC_PURPOSE_INNER = 2, /**< NODE's order inside window `window` */
  DC_PURPOSE_USER = 3   /**< anything of the caller's */
};

/** Opens the permutation of 0..length-1 that belongs to a key.
 *
 *  From 4,097 on it is a generalised Feistel network over a domain a * 2^c just above `length` (Black and Rogaway, Ciphers
 *  with Arbitrary Finite Domains, 2002) with cycle walking; up to 4,096 a table shuffled by Fisher and Yates' method, whose
 *  orders are all equally likely. Round keys and draws come from XXH3's 128-bit hash of algorithm version, length, seed,
 *  epoch, window and purpose; no part of the key is ever added to another.
 *
 *  @param length       0..DC_SAMPLER_LENGTH_MAX
 *  @param seed         any value
 *  @param epoch        0..DC_SAMPLER_EPOCH_MAX
 *  @param window       any value
 *  @param purpose      one of dc_purpose
 *  @param permutation  receives the handle, which the caller closes with dc_permutation_close; unchanged after an error
 *  @param error        optional
 *  @return DC_OK; DC_ERROR_ARGUMENT for NULL or an unknown purpose; DC_ERROR_RANGE; DC_ERROR_NO_MEMORY (it takes less
 *          than 20 KiB, whatever the length). Never blocks. @since 0.1 */
DC_API int32_t dc_permutation_open(int64_t length, uint64_t seed, int64_t epoch, uint32_t window, int32_t purpose,
                                   dc_permutation **permutation, dc_error *error);

/** Frees a permutation. NULL is allowed and does nothing. Never blocks. @since 0.1 */
DC_API void dc_permutation_close(dc_permutation *permutation);

/** The index at a position. Constant time.
 *
 *  @param position  0..length-1
 *  @param index     receives 0..length-1
 *  @return DC_OK; DC_ERROR_ARGUMENT for NULL; DC_ERROR_RANGE. Never blocks. @since 0.1 */
DC_API int32_t dc_permutation_at(const dc_permutation *permutation, int64_t position, int64_t *index);

/** The position of an index: the inverse of dc_permutation_at. Constant time.
 *
 *  @param index     0..length-1
 *  @param position  receives 0..length-1
 *  @return DC_OK; DC_ERROR_ARGUMENT for NULL; DC_ERROR_RANGE. Never blocks. @since 0.1 */
DC_API int32_t dc_permutation_inverse(const dc_permutation *permutation, int64_t index, int64_t *position);

/** The indices at `count` positions from `position` on, at about a nanosecond each.
 *
 *  @param position  0..length
 *  @param indices   memory for `count` indices; unchanged after an error; may be NULL if count is 0
 *  @param count     0..length-position
 *  @return DC_OK; DC_ERROR_ARGUMENT for NULL; DC_ERROR_RANGE. Never blocks. @since 0.1 */
DC_API int32_t dc_permutation_batch(const dc_permutation *permutation, int64_t position, int64_t *indices,
                                    int64_t count);

#ifdef __cplusplus
}
#endif

#endif
