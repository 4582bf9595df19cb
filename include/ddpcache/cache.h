/* ddpcache/cache.h: one cache of decoded samples per machine, in shared memory, shared by every process that opens it.
 *
 * A cache has a name and `length` entries, numbered 0..length-1 like the samples of a data set. Each entry is filled
 * once, by whichever process asks first, and is then read by all of them without a copy. There is no server process:
 * the processes that have the cache open are all there is, and any of them may be killed at any moment.
 *
 *     dc_cache_options options;
 *     dc_cache_options_init(&options, sizeof options);
 *     options.length = 60000;
 *     dc_cache *cache;
 *     dc_error error;
 *     if (dc_cache_open("digits", NULL, "digits v1", &options, &cache, &error)) { puts(error.message); exit(1); }
 *     dc_view view;
 *     if (dc_cache_load(cache, index, decode, NULL, 60000000000, &view) == DC_OK) {
 *       use(view.data, view.bytes);
 *       dc_cache_view_release(&view);
 *     }
 *     dc_cache_close(cache);
 *
 * Threads. A cache may be used by any number of threads at once. A fill belongs to the thread that began it. A view may
 *   be released by any thread.
 * Processes and fork. A child of fork() may go on using the parent's handle: it registers as a client of its own at its
 *   first use. Fills and views that were open at the fork stay the parent's: in the child, abort and release of them do
 *   nothing, and their memory is valid while the parent keeps them. A child's first call, dc_cache_close, and fork()
 *   itself may wait for another thread of the process that is inside open, attach, unlink or gc. Processes share a
 *   cache if they see the same /dev/shm (or directory), run as the same user and are in the same user namespace; PID
 *   namespaces may differ.
 * Crashes. A process killed at any instruction costs the decode that was under way and nothing else: its unfinished
 *   fill is handed to the next caller who wants that index, within 100 ms of the kernel's release of the dead one's
 *   lock.
 * Memory. Nothing is written that was not reserved first: too little space is DC_FULL or an error, never SIGBUS.
 * Places. A cache lies in shared memory, or in a directory of your choice: on a tmpfs; on a hugetlbfs, whose huge pages
 *   it then takes in whole; or on a local disk with ext4 or xfs, for data larger than the memory, which the kernel
 *   keeps in memory as far as there is room. Other file systems are DC_ERROR_UNSUPPORTED with the reason. On a disk
 *   samples always carry checksums, and a cache that is kept outlives a reboot: after a clean close all of it is
 *   trusted, else each sample is compared with its checksum at its first use, and filled again where it is damaged.
 *   What was stored or removed shortly before the machine stopped may then be as it was before. I/O errors of the disk
 *   are not caught.
 *
 * Caveats, each with its remedy:
 *   - A process that closes every descriptor (as daemonising code does) loses its registration: it goes on reading, its
 *     next fill fails with DC_ERROR_UNREGISTERED. Open the cache after daemonising.
 *   - A stopped process (SIGSTOP, a debugger) keeps the fills that it has open: others get DC_BUSY at their deadline
 *     and decode for themselves.
 *   - Nothing is evicted unless it is removed from a droppable cache: when the capacity is used up, further samples are
 *     DC_FULL and the resident ones go on hitting.
 *   - The memory of a view is mapped read only: writing to it is a segmentation fault. Copy what must be changed. */
#ifndef DDPCACHE_CACHE_H
#define DDPCACHE_CACHE_H

#include "ddpcache/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A process's handle on a cache. Opaque. */
typedef struct dc_cache dc_cache;

/** A fill under way: the right, and after dc_cache_fill_allocate the memory, to write one sample. Opaque. */
typedef struct dc_fill dc_fill;

/* ---- Limits. ---- */

#define DC_NAME_BYTES_MAX 200          /**< of a cache's name */
#define DC_LENGTH_MAX 17179869183      /**< entries of a cache: 2^34 - 1 */
#define DC_CLIENTS_MAX 4095            /**< clients of a cache at one time */
#define DC_FILLS_MAX 64                /**< open fills of a client at one time */
#define DC_ARRAYS_MAX 64               /**< arrays of a sample */
#define DC_DIMENSIONS_MAX 8            /**< dimensions of an array */
#define DC_STRUCTURE_BYTES_MAX 4096    /**< of a structure string */
#define DC_FINGERPRINT_BYTES_MAX 1024  /**< of a fingerprint */
#define DC_SAMPLE_BYTES_MAX 4294967296 /**< largest sample: 2^32 bytes */

/* ---- Opening and closing. ---- */

/** What guards the bytes of samples against damage: by hardware, by a program that writes where it should not. On a
 *  disk DC_CHECKSUMS_OFF means DC_CHECKSUMS_FILL. */
enum dc_checksums {
  DC_CHECKSUMS_OFF = 0,  /**< nothing */
  DC_CHECKSUMS_FILL = 1, /**< a commit takes a checksum of the sample, which dc_cache_check compares */
  /** besides, every view, read and load that hits compares it first: a damaged sample is given up and is a miss. The
   *  cost of a hit is then in proportion to the sample's size. */
  DC_CHECKSUMS_READ = 2
};

/** What a new cache shall be. Initialise with dc_cache_options_init, then set at least `length`. Those marked identity
 *  must be the same for all who share a cache. */
typedef struct dc_cache_options {
  uint32_t struct_size; /**< set by dc_cache_options_init */
  uint32_t clients_max; /**< processes that may be attached at one time: 1..DC_CLIENTS_MAX; 0: 1024 */
  int64_t length;       /**< entries: 1..DC_LENGTH_MAX; identity */
  /** For samples. 0: half of what file system, cgroup and machine have free; of a disk, half of what is free there. The
   *  creator's counts. */
  uint64_t capacity_bytes;
  /** 0: samples of any size. Else every sample's arrays, each rounded up to 64 bytes, add up to at most this, and the
   *  memory is cut into equal pieces of sample_bytes + 192. What describes a sample must fit the 192: 24 bytes; 8, 8 a
   *  dimension and the name, padded to 8, for each array; the structure and its NUL; all rounded up to 64. Identity. */
  uint64_t sample_bytes;
  /** Largest sample, up to DC_SAMPLE_BYTES_MAX. 0: capacity/256, or sample_bytes if that is set. Identity if not 0. */
  uint64_t sample_bytes_max;
  int64_t timeout_ns; /**< how long open may wait for the user's lock file; default 10 s */
  uint64_t job_id;    /**< any number that the processes of one job share; info shows the creator's; default 0 */
  /** 1: the cache stays when its last client has left, until dc_cache_unlink, or a reboot if it is in memory */
  uint32_t keep;
  uint32_t partial; /**< 1: where capacity_bytes is more than is free, take what is free instead of failing */
  /** 1: samples can be removed. A hit then names what it looks at, and a client's record takes 8 KiB more. Identity. */
  uint32_t droppable;
  /** 1: samples have keys, see keys.h; each entry then takes 16 bytes more, and `length` should be 1.3 times the number
   *  of keys. Identity. */
  uint32_t keyed;
  uint32_t checksums; /**< enum dc_checksums: whether samples carry a checksum, and when it is compared; identity */
  /** 1: a creator asks for its samples' memory to be spread over all NUMA nodes that it may use, so that the ranks of
   *  every socket read at the same speed. Never an error; dc_cache_info's numa_nodes says what was obtained. */
  uint32_t interleave;
  /** 1: each process that maps a cache which was made so asks for transparent huge pages. Never an error;
   *  dc_cache_info's page_bytes says what was obtained. Samples get them on a tmpfs mounted with huge=always or
   *  huge=within_size; without that, /dev/shm stays with small pages. */
  uint32_t huge_pages;
  uint32_t reserved; /**< 0 */
} dc_cache_options;

/** Sets every option to its default.
 *
 *  @param options      memory of the caller's
 *  @param struct_size  sizeof(dc_cache_options) as the caller was compiled
 *  @return DC_OK; DC_ERROR_ARGUMENT for NULL or an impossible size. Never blocks. @since 0.1 */
DC_API int32_t dc_cache_options_init(dc_cache_options *options, uint32_t struct_size);

/** Opens the cache of this name, or creates it.
 *
 *  Exactly one of any number of processes that call this at once creates the cache; the others attach to it. A cache in
 *  use must have the same identity (options marked so, and fingerprint). One that no process is attached to (kept, or
 *  left by a crash) is used again if its identity is the same and it has a fingerprint, and is replaced otherwise.
 *
 *  @param name         1..200 characters of A-Z a-z 0-9 . _ -
 *  @param directory    NULL for shared memory (/dev/shm), or a directory of your own on a tmpfs, a hugetlbfs or a local
 *          disk with ext4 or xfs
 *  @param fingerprint  identifies the data: data set, version, deterministic transform; up to 1,024 bytes. NULL: none
 *  @param options      what the cache shall be
 *  @param cache        receives the handle, which the caller closes with dc_cache_close
 *  @param error        optional
 *  @return DC_OK; DC_ERROR_ARGUMENT, DC_ERROR_RANGE, DC_ERROR_NAME; DC_ERROR_MISMATCH, DC_ERROR_FINGERPRINT (with both
 *          values); DC_ERROR_FORMAT, DC_ERROR_DAMAGED, DC_ERROR_PERMISSION; DC_ERROR_NO_SPACE (with what is needed,
 *          what is there, and the remedy); DC_ERROR_CLIENTS; DC_ERROR_LOCKED; DC_ERROR_UNSUPPORTED; DC_ERROR_SYSTEM;
 *          DC_ERROR_NO_MEMORY.
 *  May block up to options->timeout_ns, and for as long as the kernel takes to reserve 8 bytes an entry, or 24 in a
 *  keyed cache; on a disk that was not closed before a reboot, for as long as reading those and 8 bytes a sample takes.
 *  @since 0.1 */
DC_API int32_t dc_cache_open(const char *name, const char *directory, const char *fingerprint,
                             const dc_cache_options *options, dc_cache **cache, dc_error *error);

/** Attaches to a cache that is in use, whatever its options and fingerprint.
 *
 *  @param timeout_ns  how long it may wait for the user's lock file, >= 0
 *  @return as dc_cache_open; DC_ERROR_NOT_FOUND where no cache has the name, or no process is attached to it and it is
 *          not kept. @since 0.1 */
DC_API int32_t dc_cache_attach(const char *name, const char *directory, int64_t timeout_ns, dc_cache **cache,
                               dc_error *error);

/** Attaches to a cache that is in use or kept, to look only: nothing of it can be changed through the handle, not by
 *  mistake either, since its memory is mapped without the right to write and its file is opened so. For tools, for a
 *  judge of somebody else's run, and for caches on a file system that is mounted read only.
 *
 *  It keeps the cache alive as any client does, but takes no client record: it counts neither for `clients_max` nor in
 *  dc_cache_info's `clients_attached`. A forked child reads on by itself. With such a handle
 *  - a miss of dc_cache_load runs the loader at once, without a claim and without waiting for another filler, and
 *    dc_cache_fill_allocate gives it DC_FULL, as where there is no room; dc_cache_intern gives DC_FULL for a new key;
 *  - dc_cache_fill_begin, dc_cache_remove, dc_cache_remove_batch and dc_cache_clear are DC_ERROR_UNSUPPORTED;
 *  - nothing is counted: DC_STATS_CLIENT is all zeros; a damaged sample is a miss, and stays as it is for others;
 *  - in a droppable cache each view is a private copy of the whole sample, made by dc_cache_view and freed by
 *    dc_cache_view_release; a sample that is removed and stored anew three times during the copy is a miss. In other
 *    caches views are without a copy, as ever.
 *
 *  @param timeout_ns  how long it may wait for the user's lock file, >= 0; it does not wait where there is none
 *  @return as dc_cache_attach, but never DC_ERROR_CLIENTS; DC_ERROR_STATE for a cache on a disk that was not closed
 *          before the machine stopped, and that nobody has opened for writing since. @since 0.1 */
DC_API int32_t dc_cache_attach_read_only(const char *name, const char *directory, int64_t timeout_ns, dc_cache **cache,
                                         dc_error *error);

/** Ends this process's use of the cache; the last client of a cache that is not kept removes it.
 *
 *  The handle must not be used afterwards, but views of it stay valid: the last one that is released frees the mapping.
 *  No other thread may be inside a call with this handle, and no fill of it may be open (DC_ERROR_STATE, nothing done).
 *  In a forked child it ends the child's own registration only. Blocks for up to 100 ms where another process holds the
 *  lock file; the name is then left to the next dc_cache_open or dc_cache_gc, and so it is where the last client
 *  attached read only and cannot write to the directory. The last client of a kept cache on a disk blocks until all of
 *  it is written there, and for up to 10 s for the lock file. NULL is DC_OK. @since 0.1 */
DC_API int32_t dc_cache_close(dc_cache *cache);

/** Removes a cache's name at once, kept or not. Processes that have it open go on with it; a later open creates anew.
 *
 *  @return DC_OK; DC_ERROR_NOT_FOUND; DC_ERROR_ARGUMENT, DC_ERROR_NAME; DC_ERROR_PERMISSION; DC_ERROR_LOCKED after 10
 *          s; DC_ERROR_UNSUPPORTED for a directory where no cache may lie; DC_ERROR_SYSTEM. @since 0.1 */
DC_API int32_t dc_cache_unlink(const char *name, const char *directory, dc_error *error);

/** Removes every cache of this user that nobody is attached to and that is not kept. Every creation does this too.
 *
 *  @param removed  optional; receives how many
 *  @return DC_OK; DC_ERROR_LOCKED after 10 s; DC_ERROR_PERMISSION, DC_ERROR_UNSUPPORTED, DC_ERROR_SYSTEM. @since 0.1 */
DC_API int32_t dc_cache_gc(const char *directory, int32_t *removed, dc_error *error);

/** The names of this user's caches, sorted, each followed by a newline; no NUL.
 *
 *  @param buffer        receives the text; may be NULL where buffer_bytes is 0
 *  @param needed_bytes  receives the length of the whole text
 *  @return DC_OK; DC_ERROR_BUFFER where the text is longer than the buffer (nothing is written); DC_ERROR_ARGUMENT,
 *          DC_ERROR_UNSUPPORTED, DC_ERROR_SYSTEM. @since 0.1 */
DC_API int32_t dc_cache_list(const char *directory, uint8_t *buffer, uint64_t buffer_bytes, uint64_t *needed_bytes,
                             dc_error *error);

/** How large a cache must be for all of its samples to fit.
 *
 *  In memory of pages of 4 KiB, and on a disk. On a hugetlbfs memory is taken in whole huge pages, each for samples of
 *  one size class, and more may be needed.
 *
 *  @param options         as for dc_cache_open; capacity_bytes is ignored
 *  @param sample_bytes    bytes of every sample's arrays, each array rounded up to 64; its description is taken to fit
 *          192
 *  @param capacity_bytes  receives the capacity to ask for
 *  @param total_bytes     receives what the cache then takes in all, entries and client records included
 *  @return DC_OK; DC_ERROR_ARGUMENT, DC_ERROR_RANGE, DC_ERROR_TOO_LARGE, DC_ERROR_UNSUPPORTED. Never blocks.
 *          @since 0.1 */
DC_API int32_t dc_cache_estimate(const dc_cache_options *options, uint64_t sample_bytes, uint64_t *capacity_bytes,
                                 uint64_t *total_bytes, dc_error *error);

/* ---- Samples. ----
 *
 * A sample is a record of 1..64 arrays, each in C order, and optionally a structure string: JSON that says how the
 * language that stored it nests them. Array data is aligned to 64 bytes. */

/** One array of a sample. Frozen. */
typedef struct dc_array {
  uint8_t *data;        /**< its bytes: set by fill_allocate; of a view read only; NULL in a mere description only */
  uint64_t bytes;       /**< dtype size times all dimensions; set by dc_cache_fill_allocate */
  int64_t shape[8];     /**< dimensions, outermost first; the first `dimensions` count */
  uint32_t dimensions;  /**< 0 (a scalar) to 8 */
  uint8_t dtype_code;   /**< DLPack's DLDataTypeCode: 0 int, 1 uint, 2 float, 4 bfloat, 5 complex, 6 bool, ... */
  uint8_t dtype_bits;   /**< bits of an element's lane; bits times lanes is a multiple of 8 */
  uint16_t dtype_lanes; /**< usually 1 */
  char name[56];        /**< ends in NUL; "" where the array has none */
  uint8_t reserved[24]; /**< 0 */
} dc_array;

/** A look at one sample, without a copy. Frozen. Filled by dc_cache_view or dc_cache_load, ended by
 *  dc_cache_view_release; may be copied and moved in memory, but released only once. */
typedef struct dc_view {
  const uint8_t *data;   /**< the first array's bytes, aligned to 64, read only */
  uint64_t bytes;        /**< the first array's length */
  int64_t index;         /**< the sample's index */
  uint32_t array_count;  /**< arrays of the sample: 1..64 */
  uint32_t slot;         /**< private */
  const uint8_t *record; /**< private */
  uint64_t record_bytes; /**< private */
  dc_cache *owner;       /**< private; NULL in a view that holds nothing */
  uint64_t reserved;     /**< private */
} dc_view;

/** Looks at a sample.
 *
 *  @param index  0..length-1
 *  @param view   receives the look; holds nothing unless DC_OK is returned
 *  @return DC_OK; DC_MISS; DC_ERROR_RANGE; DC_ERROR_ARGUMENT; DC_ERROR_NO_MEMORY where a copy is made. Never blocks:
 *          one atomic load decides, and in a droppable cache another one after the naming. @since 0.1 */
DC_API int32_t dc_cache_view(dc_cache *cache, int64_t index, dc_view *view);

/** Ends a look and clears the view. Any thread may call it, also after dc_cache_close and inside a loader. A view that
 *  holds nothing, or was taken before a fork by the parent, is left alone. Never blocks. @since 0.1 */
DC_API void dc_cache_view_release(dc_view *view);

/** One array of a viewed sample.
 *
 *  @param number  0..array_count-1
 *  @param array   receives it; `data` is valid until the view is released
 *  @return DC_OK; DC_ERROR_RANGE; DC_ERROR_RECORD where the record is not sound; DC_ERROR_ARGUMENT. Never blocks.
 *  @since 0.1 */
DC_API int32_t dc_view_array(const dc_view *view, uint32_t number, dc_array *array);

/** The structure string of a viewed sample, or NULL where it has none. It ends in NUL and is valid until release.
 *
 *  @param bytes  optional; receives its length without the NUL. Never blocks. @since 0.1 */
DC_API const char *dc_view_structure(const dc_view *view, uint64_t *bytes);

/** Whether a sample is in the cache: DC_OK or DC_MISS; DC_ERROR_RANGE, DC_ERROR_ARGUMENT. One that is still to be
 *  verified after a stop of the machine counts. Never blocks. @since 0.1 */
DC_API int32_t dc_cache_contains(dc_cache *cache, int64_t index);

/* ---- Filling. ---- */

/** Decodes one sample into a fill.
 *
 *  It calls dc_cache_fill_allocate once, writes every byte of the arrays that it asked for, and returns DC_LOADED. Any
 *  other value aborts the fill. It runs on the thread that called dc_cache_load, with no lock held, and may use this or
 *  any cache, except to load the same index. It must not commit or abort the fill, or unwind through its caller.
 *
 *  @param fill   the fill; valid until the loader returns
 *  @param index  the sample wanted
 *  @param user   what was given to dc_cache_load */
typedef int32_t (*dc_loader)(dc_fill *fill, int64_t index, void *user);

/** Looks at a sample, and has it filled first where it is missing: by this caller's loader, or by another client that
 *  is at it already. Of any number of callers exactly one runs its loader.
 *
 *  A calling thread that has a fill open (a loader of another sample) does not wait: it gets DC_BUSY. Where the cache
 *  has no room, or the client has DC_FILLS_MAX fills open, the loader runs all the same and dc_cache_fill_allocate
 *  gives it DC_FULL, so that a caller can keep the decoded sample for itself.
 *
 *  @param loader      decodes the sample
 *  @param user        handed to the loader
 *  @param timeout_ns  how long to wait for another filler, >= 0
 *  @param view        receives the look
 *  @return DC_OK; DC_BUSY at the deadline; DC_FULL; DC_INTERRUPTED by a signal while waiting; DC_ERROR_LOADER;
 *          DC_ERROR_RECURSION; DC_ERROR_LOST; DC_ERROR_TOO_LARGE, DC_ERROR_ARGUMENT, DC_ERROR_STATE as the loader's
 *          dc_cache_fill_allocate had it; DC_ERROR_RANGE; DC_ERROR_UNREGISTERED, and in a forked child that could not
 *          register also DC_ERROR_CLIENTS, DC_ERROR_SYSTEM; DC_ERROR_NO_MEMORY. Blocks for up to timeout_ns, and
 *          while the loader runs. @since 0.1 */
DC_API int32_t dc_cache_load(dc_cache *cache, int64_t index, dc_loader loader, void *user, int64_t timeout_ns,
                             dc_view *view);

/** Claims an empty entry, or waits for the client that has claimed it.
 *
 *  @param timeout_ns  how long to wait for another filler, >= 0
 *  @param fill        receives the fill, which dc_cache_fill_commit or dc_cache_fill_abort ends on the same thread
 *  @return DC_OK (claimed); DC_PRESENT (filled already, also by the one waited for); DC_BUSY, DC_INTERRUPTED; DC_FULL
 *          for an entry that was given up because its record was damaged;
 *          DC_ERROR_RECURSION, DC_ERROR_FILLS, DC_ERROR_RANGE, DC_ERROR_ARGUMENT; DC_ERROR_UNREGISTERED, and in a
 *          forked child that could not register also DC_ERROR_CLIENTS, DC_ERROR_SYSTEM; DC_ERROR_NO_MEMORY.
 *  Blocks for up to timeout_ns. @since 0.1 */
DC_API int32_t dc_cache_fill_begin(dc_cache *cache, int64_t index, int64_t timeout_ns, dc_fill **fill);

/** Obtains the memory of the sample, once its shape is known. Once per fill.
 *
 *  @param fill       an open fill of this thread
 *  @param arrays     `count` arrays with dtype, shape and optional name set; receives data (writable, aligned to 64,
 *                    not initialised, valid until the fill ends) and bytes
 *  @param count      1..64
 *  @param structure  optional; JSON of at most 4,096 bytes
 *  @param error      optional
 *  @return DC_OK; DC_FULL where there is no room; DC_ERROR_TOO_LARGE (with both sizes); DC_ERROR_ARGUMENT,
 *          DC_ERROR_RANGE where a count, dimension, dtype or length is impossible; DC_ERROR_STATE at a second call;
 *          DC_ERROR_THREAD; DC_ERROR_LOST; DC_ERROR_UNREGISTERED, DC_ERROR_SYSTEM where no memory can be reserved.
 *  Blocks for as long as the kernel takes to reserve memory. @since 0.1 */
DC_API int32_t dc_cache_fill_allocate(dc_fill *fill, dc_array *arrays, uint32_t count, const char *structure,
                                      dc_error *error);

/** Publishes the sample to every client and ends the fill.
 *
 *  @return DC_OK; DC_ERROR_LOST where another client took the entry over; DC_ERROR_STATE (the fill stays open) where
 *          nothing was allocated or the fill is a loader's; DC_ERROR_THREAD, DC_ERROR_ARGUMENT. Never blocks.
 *  @since 0.1 */
DC_API int32_t dc_cache_fill_commit(dc_fill *fill);

/** Gives the entry back, empty, and ends the fill; whoever waits for it fills it. NULL, or a fill that a parent process
 *  began before a fork, is left alone.
 *
 *  @return DC_OK; DC_ERROR_THREAD, DC_ERROR_STATE (a loader's fill). Never blocks. @since 0.1 */
DC_API int32_t dc_cache_fill_abort(dc_fill *fill);

/** The index that a fill is for. -1 for NULL. @since 0.1 */
DC_API int64_t dc_cache_fill_index(const dc_fill *fill);

/* ---- Removing, in a droppable cache. ----
 *
 * A removed sample is invisible at once. Its memory is used again when no view of it is left, in any process: up to
 * 1,024 views in a process are known one by one; while a process has more, nothing that is removed is used again. */

/** Removes a sample.
 *
 *  @param index  0..length-1
 *  @return DC_OK; DC_MISS where it was not there (or is being filled: that fill goes on); DC_ERROR_UNSUPPORTED in a
 *          cache that is not droppable; DC_ERROR_UNREGISTERED; DC_ERROR_RANGE; DC_ERROR_ARGUMENT. Never blocks. @since
 *          0.1 */
DC_API int32_t dc_cache_remove(dc_cache *cache, int64_t index);

/** Removes those of many samples that are there.
 *
 *  @param indices  `count` indices, in any order, repeats allowed; all are checked before any is removed
 *  @param count    >= 0
 *  @param removed  optional; receives how many were there
 *  @return DC_OK; DC_ERROR_UNSUPPORTED; DC_ERROR_RANGE; DC_ERROR_ARGUMENT. Never blocks. @since 0.1 */
DC_API int32_t dc_cache_remove_batch(dc_cache *cache, const int64_t *indices, int64_t count, int64_t *removed);

/** Removes all samples that are there at some moment of the call; fills under way go on.
 *
 *  @param removed  optional; receives how many
 *  @return DC_OK; DC_ERROR_UNSUPPORTED; DC_ERROR_ARGUMENT. Never blocks. @since 0.1 */
DC_API int32_t dc_cache_clear(dc_cache *cache, int64_t *removed);

#ifdef __cplusplus
}
#endif

#endif
