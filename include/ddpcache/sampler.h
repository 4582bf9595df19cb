/* ddpcache/sampler.h: which samples a training process reads in an epoch, and in which order.
 *
 * A sampler deals the indices 0..length-1 of a data set to the ranks of a distributed training run. Its default order,
 * DC_ORDER_NODE, shuffles anew each epoch without moving samples between machines, so that what a machine has cached
 * stays useful: every node owns one part of the data set, a *window*, and its ranks share a fresh permutation of it.
 * Windows are fixed, or move a little each epoch (`exchange_ppm`) so that in time every node sees everything.
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
 * Words. A *node* is one machine, a *rank* one training process. There are `nodes` nodes of `local_size` ranks each;
 *   local rank j of node k has number k * local_size + j. A *position* counts the samples of one rank in one epoch from
 *   0.
 * Threads. Calls that take a const handle may be made by any number of threads at once. The others (set_epoch, next,
 *   seek, state_load, close) need the handle to themselves. Different handles have nothing in common.
 * Processes and fork. A handle is ordinary memory of the process: a forked child has an independent copy and may use
 *   all of it, whatever the parent was doing. There are no files, no locks and no network: ranks agree because they
 *   compute the same.
 * Cost. NODE: constant memory (under 40 KiB), constant time for every call; see dc_sampler_read for batches. With
 *   `canonical_nodes`, and in an epoch that is resumed under another number of nodes, a rank reads from several
 *   windows, and each takes up to 20 KiB from its first use on, of DC_SAMPLER_CANONICAL_MAX windows at most. TORCH and
 *   VISCY with shuffle draw their epoch's order at its first use: see dc_sampler_read.
 * Repeatability. The orders depend on the options and the epoch alone: not on processor, compiler, number of calls or
 *   release of the library. A release that had to change NODE would change DC_SAMPLER_ALGORITHM_VERSION.
 *
 * Caveats, each with its remedy:
 *   - All ranks must be given the same options but for `node` and `local_rank`, and the same epoch: nobody checks it
 *     here.
 *     Compare a hash of the options over the process group where you have one.
 *   - Epochs look alike if nobody calls dc_sampler_set_epoch. Call it at the start of each.
 *   - DC_TAIL_EXACT can give ranks different numbers of samples, and a collective operation that one rank does not
 *     reach hangs. Use PAD, and mask metrics by dc_sampler_real_size.
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

#define DC_SAMPLER_LENGTH_MAX 4611686018427387904 /**< samples of a data set, and length of a permutation: 2^62 */
#define DC_SAMPLER_EPOCH_MAX 1099511627775        /**< last epoch: 2^40 - 1 */
#define DC_SAMPLER_WORLD_MAX 16777216             /**< ranks: nodes * local_size at most 2^24 */
#define DC_SAMPLER_CANONICAL_MAX 1024             /**< canonical_nodes / nodes */
#define DC_SAMPLER_STAGES_MAX 16                  /**< layouts that one epoch runs under, one after another */
#define DC_SAMPLER_STATE_BYTES_MAX 512            /**< of a saved state */

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
 *  The first of these groups that has any variable decides, since launchers nest and the inner one is nearer to the
 *  truth:
 *    torchrun:  RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK, GROUP_WORLD_SIZE
 *    Lightning: NODE_RANK, LOCAL_RANK, WORLD_SIZE (without RANK)
 *    Open MPI:  OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE, OMPI_COMM_WORLD_LOCAL_RANK, OMPI_COMM_WORLD_LOCAL_SIZE
 *    PMI:       PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS
 *    Slurm:     SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, SLURM_NODEID, SLURM_NNODES, SLURM_TASKS_PER_NODE,
 *               SLURM_NTASKS_PER_NODE, and where srun set them the SLURM_STEP_ forms, which then count
 *  What that group leaves open is taken from a later group, provided that both agree on rank and world size; and
 *  MASTER_ADDR on the loopback interface means one node, since no other could reach it. A node number that no variable
 *  gives follows from the rank where ranks are numbered node after node. With no variables at all this is the only
 *  process: node 0 of 1, rank 0 of 1.
 *
 *  Caveat: a shell in a Slurm allocation, or a batch script, carries the job's variables too. Start the program with
 *  srun, or unset SLURM_PROCID.
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
   *  permutation that depends on `ring_seed` alone, so that a sorted data set is spread over the nodes. Node k owns
   *  ring positions floor(k*length/nodes) up to floor((k+1)*length/nodes), and local rank j takes positions j,
   *  j+local_size, j+2*local_size, ... of the window's order. */
  DC_ORDER_NODE = 0,
  /** torch.utils.data.DistributedSampler of torch 2.13 and 2.14, to the bit: one permutation of everything, dealt to
   *  all ranks in turn. Any rank may get any sample in any epoch. Of seed + epoch the low 32 bits count, as there. */
  DC_ORDER_TORCH = 1,
  /** VisCy's ShardedDistributedSampler, to the bit: each rank shuffles a contiguous block of its own. Without shuffle
   *  it is TORCH. */
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
  uint32_t exchange_ppm;    /**< NODE: how far the windows move along the ring each epoch, in millionths of a window,
                                 0..1000000; default 0. With nodes >= 2 this is the fraction of a node's samples that
                                 are new to it each epoch: a cache with room for 1 + exchange_ppm/1000000 windows that
                                 drops what dc_sampler_keeps does not name misses that fraction */
  uint32_t canonical_nodes; /**< NODE: deal as for this many nodes, a multiple of `nodes` and at most
                                 DC_SAMPLER_CANONICAL_MAX times as many; 0 (default): `nodes`. Each node then has
                                 canonical_nodes/nodes windows and takes from them in turn. If this number and that of
                                 ranks divide the global batch, all full global batches are the same sets of samples
                                 for every layout. exchange_ppm counts in these smaller windows */
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
 *  @return DC_OK; DC_ERROR_ARGUMENT for NULL, an impossible struct_size, an unknown order or tail, a flag that is
 *          neither 0 nor 1, DC_TAIL_EXACT, exchange_ppm or canonical_nodes with an order other than NODE, or
 *          canonical_nodes that is no multiple of nodes; DC_ERROR_RANGE for a length, node, rank, world size,
 *          exchange_ppm or canonical_nodes outside its range; DC_ERROR_EMPTY where NODE with DC_TAIL_DROP leaves no
 *          rank a sample (TORCH and VISCY then deal nothing, as the originals do); DC_ERROR_UNSUPPORTED for an option
 *          of a later version; DC_ERROR_NO_MEMORY.
 *  Never blocks. @since 0.1 */
DC_API int32_t dc_sampler_open(const dc_sampler_options *options, dc_sampler **sampler, dc_error *error);

/** Frees a sampler. NULL is allowed and does nothing. Never blocks. @since 0.1 */
DC_API void dc_sampler_close(dc_sampler *sampler);

/* ---- Reading in order. ---- */

/** Goes to position 0 of an epoch. Sizes do not change with the epoch, but for one that is resumed. Constant time.
 *
 *  In the epoch of a state that was just loaded, the same epoch again changes nothing, neither what is left of it nor
 *  the position in that: trainers set the epoch after loading. Any other epoch forgets the resumed one, and is whole.
 *
 *  @param epoch  0..DC_SAMPLER_EPOCH_MAX
 *  @param error  optional
 *  @return DC_OK; DC_ERROR_ARGUMENT for NULL; DC_ERROR_RANGE. Never blocks. @since 0.1 */
DC_API int32_t dc_sampler_set_epoch(dc_sampler *sampler, int64_t epoch, dc_error *error);

/** The index at the current position, which then advances by one.
 *
 *  @param index  receives a sample number, 0..length-1; unchanged unless DC_OK
 *  @return DC_OK; DC_END when the rank has had all its samples of this epoch; DC_ERROR_ARGUMENT for NULL;
 *          DC_ERROR_NO_MEMORY as for dc_sampler_read. Never blocks. @since 0.1 */
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

/** How many samples this rank is dealt in each epoch; after dc_sampler_state_load, in what is left of the epoch.
 *
 *  @param size  receives the number
 *  @return DC_OK; DC_ERROR_ARGUMENT for NULL. Never blocks. @since 0.1 */
DC_API int32_t dc_sampler_size(const dc_sampler *sampler, int64_t *size);

/** How many of this rank's samples are no repeats. They come first: over all ranks, positions 0..real_size-1 hold each
 *  sample that is dealt exactly once, so a metric that counts only these is exact.
 *
 *  @param size   receives the number, 0..size
 *  @param error  optional
 *  @return DC_OK; DC_ERROR_ARGUMENT for NULL; DC_ERROR_UNSUPPORTED for a shuffled VISCY sampler with DC_TAIL_PAD whose
 *          length the ranks do not divide: its repeats lie scattered. Evaluate without shuffle. Never blocks. @since
 *          0.1 */
DC_API int32_t dc_sampler_real_size(const dc_sampler *sampler, int64_t *size, dc_error *error);

/** Copies the indices at `count` positions from `position` on. Does not move the current position.
 *
 *  Cost. NODE computes each index from its position and keeps nothing: about a nanosecond each in batches of some
 *  hundreds with AVX2 or AVX-512, some 50 ns for one by itself.
 *  Shuffled TORCH and VISCY first draw the epoch's order if no call of this epoch has: TORCH takes O(length) time and,
 *  while it draws, 4 bytes a sample of memory (8 from 2^32 samples on), of which it keeps this rank's share; VISCY
 *  takes O(length) time in the worst case, but 4 (8) bytes for each sample of its own block only.
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
 *  Of several places of a repeated index it is the one that is no repeat; where blocks of shuffled VISCY overlap, that
 *  of the lowest rank. Constant time with NODE and without shuffle; shuffled TORCH draws the whole order anew
 *  (O(length) time and memory), VISCY one rank's block.
 *
 *  @param index     0..length-1
 *  @param rank      receives the rank that has it, node * local_size + local_rank; unchanged unless DC_OK
 *  @param position  receives the position there; unchanged unless DC_OK
 *  @param error     optional
 *  @return DC_OK; DC_END where DC_TAIL_DROP leaves the index out of this epoch, or where it was consumed before the
 *          epoch was resumed; DC_ERROR_ARGUMENT for NULL;
 *          DC_ERROR_RANGE; DC_ERROR_NO_MEMORY. Never blocks. @since 0.1 */
DC_API int32_t dc_sampler_find(const dc_sampler *sampler, int64_t index, uint32_t *rank, int64_t *position,
                               dc_error *error);

/* ---- What a node holds. ---- */

/** How many samples this node holds: those its ranks are dealt, other nodes' samples that pad its tail or come to it in
 *  the rest of a resumed epoch not counted. It is what the node's cache needs room for, and with an exchange x (as a
 *  fraction) it needs 1 + x times as much. It is the same in every epoch.
 *
 *  NODE: its window, or windows, also where unshuffled DROP never reaches the window's end. Shuffled TORCH: the whole
 *  data set. Shuffled VISCY: its ranks' blocks. TORCH and VISCY without shuffle: its ranks' samples.
 *
 *  @param size  receives the number, 0..length
 *  @return DC_OK; DC_ERROR_ARGUMENT for NULL. Never blocks. @since 0.1 */
DC_API int32_t dc_sampler_shard_size(const dc_sampler *sampler, int64_t *size);

/** Copies `count` of the indices that this node holds, each of which occurs once, for filling a cache ahead of time.
 *
 *  Their order is fixed and the same for all ranks of the node, so local rank j of L can take every L-th page. Without
 *  an exchange it does not depend on the epoch; with one it is that of the current epoch. Constant time an index and
 *  constant memory, whatever the length: read it page by page.
 *
 *  @param position  0..shard size: where in the shard to begin
 *  @param indices   memory for `count` indices; unchanged after an error; may be NULL if count is 0
 *  @param count     0..shard size - position
 *  @param error     optional
 *  @return DC_OK; DC_ERROR_ARGUMENT for NULL; DC_ERROR_RANGE. Never blocks. @since 0.1 */
DC_API int32_t dc_sampler_shard_read(const dc_sampler *sampler, int64_t position, int64_t *indices, int64_t count,
                                     dc_error *error);

/** Whether this node may need a sample again: whether it lies in what the node holds in this epoch or held in the last.
 *
 *  Both, since ranks of a node do not change epoch at the same moment: what no rank keeps may be dropped from the
 *  node's cache once any rank has gone to the next epoch. A sample that is dealt but not kept (borrowed to pad a tail,
 *  or another node's in a resumed epoch) is best read without filling the cache. Without an exchange the answer never
 *  changes. Constant time.
 *
 *  @param index  0..length-1
 *  @return DC_OK where it is kept, DC_MISS where not; DC_ERROR_ARGUMENT for NULL; DC_ERROR_RANGE. Never blocks. @since
 *          0.1 */
DC_API int32_t dc_sampler_keeps(const dc_sampler *sampler, int64_t index);

/* ---- Stopping and resuming. ---- */

/** Saves where the epoch stands, so that training can go on from there under this or another number of nodes and ranks.
 *
 *  A state holds the options, the epoch, and for each layout that the epoch has run under how many samples each rank
 *  was trained on; not which rank saved it, so that all ranks write the same bytes and one copy is enough. It is
 *  portable between machines and languages, versioned and under a checksum: 96 bytes, and 16 more for each further
 *  layout.
 *
 *  @param consumed      samples that *each* rank has been trained on since the epoch began or was last resumed,
 *                       0..size. Loaders read ahead: this is the caller's count (batches trained * batch size), not the
 *                       position. With DC_TAIL_EXACT, where sizes differ by one, at most the largest
 *  @param buffer        receives the state; DC_SAMPLER_STATE_BYTES_MAX bytes are always enough; may be NULL if
 *          buffer_bytes is 0
 *  @param buffer_bytes  its size
 *  @param needed_bytes  optional; receives the size of the state
 *  @param error         optional
 *  @return DC_OK; DC_ERROR_BUFFER where the buffer is too small (nothing is written but needed_bytes); DC_ERROR_RANGE;
 *          DC_ERROR_ARGUMENT for NULL. Never blocks. @since 0.1 */
DC_API int32_t dc_sampler_state_save(const dc_sampler *sampler, int64_t consumed, uint8_t *buffer,
                                     uint64_t buffer_bytes, uint64_t *needed_bytes, dc_error *error);

/** Goes on where a saved epoch was stopped, at position 0 of what is left of it.
 *
 *  The sampler must have been opened with the same options but for the layout (node, nodes, local_rank, local_size) and
 *  exchange_ppm. All ranks must load the same state. With NODE the rest of the epoch is dealt anew to the ranks of this
 *  layout: over all stages no sample comes twice and none is lost, but for what the tail repeats or leaves out at the
 *  end.
 *  Nodes share the rest evenly, in the order of the windows, so that under the same number of nodes, or one that
 *  divides it, samples stay with their node. TORCH and VISCY go on under the same number of ranks only.
 *
 *  Sizes and positions count what is left, until dc_sampler_set_epoch goes to another epoch. Where the number of nodes
 *  or the exchange has changed, windows move on from where they stood, at the new rate, from the next epoch on.
 *  Constant time: sixteen stages at most.
 *
 *  @param state        what dc_sampler_state_save wrote; any bytes are safe
 *  @param state_bytes  its size
 *  @param error        optional
 *  @return DC_OK; DC_ERROR_SAMPLER_STATE where the bytes are no sound state of this version, where the saved options
 *          differ (the message says which, with both values), where TORCH or VISCY is resumed under another number of
 *          ranks, or where the epoch has run under DC_SAMPLER_STAGES_MAX layouts and this is yet another;
 *          DC_ERROR_ARGUMENT for NULL; DC_ERROR_NO_MEMORY. After an error the sampler is as it was. Never blocks.
 *          @since 0.1 */
DC_API int32_t dc_sampler_state_load(dc_sampler *sampler, const uint8_t *state, uint64_t state_bytes, dc_error *error);

/* ---- The permutation by itself. ---- */

/** What a permutation is for. Equal other keys give unrelated permutations for different purposes. */
enum dc_purpose {
  DC_PURPOSE_RING = 1,  /**< NODE's ring: seed is ring_seed, epoch and window are 0 */
  DC_PURPOSE_INNER = 2, /**< NODE's order inside window `window` */
  DC_PURPOSE_USER = 3   /**< anything of the caller's */
};

/** Opens the permutation of 0..length-1 that belongs to a key.
 *
 *  From 4,097 on it is a generalised Feistel network over a domain a * 2^c just above `length` (Black and Rogaway,
 *  Ciphers with Arbitrary Finite Domains, 2002) with cycle walking; up to 4,096 a table shuffled by Fisher and Yates'
 *  method, whose orders are all equally likely. Round keys and draws come from XXH3's 128-bit hash of algorithm
 *  version, length, seed, epoch, window and purpose; no part of the key is ever added to another.
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
