/* ddpcache/batch.h: many samples of a cache at once, copied out or described, and a cache's pages mapped in advance.
 *
 * Threads, processes and fork are as cache.h has them. A batch that copies with several threads starts them with all
 * signals blocked, and they end before the call does.
 *
 *     dc_gather parts[2] = {{.number = 0, .buffer = images, .sample_bytes = 150528},
 *                           {.number = 1, .buffer = labels, .sample_bytes = 8}};
 *     int32_t statuses[256];
 *     if (dc_cache_gather(cache, indices, 256, parts, 2, statuses, 4) == DC_MISS) load_those_missing(statuses); */
#ifndef DDPCACHE_BATCH_H
#define DDPCACHE_BATCH_H

#include "ddpcache/cache.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DC_COPY_THREADS_MAX 64 /**< native threads that one batch is copied with */

/** Which samples of a range are in the cache.
 *
 *  @param first   0..length
 *  @param count   entries to look at, first + count <= length
 *  @param bitmap  receives ceil(count/8) bytes; bit i%8 of byte i/8 is entry first+i; spare bits are 0
 *  @return DC_OK; DC_ERROR_RANGE; DC_ERROR_ARGUMENT. Never blocks; each bit is true at some moment of the call.
 *  @since 0.1 */
DC_API int32_t dc_cache_residency(dc_cache *cache, int64_t first, int64_t count, uint8_t *bitmap);

/* ---- Copying. ---- */

/** Copies one array of a sample.
 *
 *  @param number        which array of the sample: 0..63
 *  @param buffer        receives its bytes
 *  @param buffer_bytes  its room
 *  @param bytes         optional; receives the array's length, also with DC_ERROR_BUFFER
 *  @return DC_OK; DC_MISS; DC_ERROR_BUFFER; DC_ERROR_RECORD where the sample has no such array; DC_ERROR_RANGE;
 *          DC_ERROR_ARGUMENT. Never blocks. @since 0.1 */
DC_API int32_t dc_cache_read(dc_cache *cache, int64_t index, uint32_t number, uint8_t *buffer, uint64_t buffer_bytes,
                             uint64_t *bytes);

/** Copies the same array of many samples of equal size into one buffer, one after the other: dc_cache_gather of one
 *  part.
 *
 *  @param indices       `count` indices, in any order, repeats allowed
 *  @param count         samples, 0..2^31-1
 *  @param number        which array of each sample: 0..63
 *  @param buffer        count * sample_bytes bytes; sample i begins at i * sample_bytes
 *  @param sample_bytes  the length that each array must have
 *  @param statuses      optional; as for dc_cache_gather
 *  @param threads       as for dc_cache_gather
 *  @return as dc_cache_gather. Never blocks. @since 0.1 */
DC_API int32_t dc_cache_read_batch(dc_cache *cache, const int64_t *indices, int64_t count, uint32_t number,
                                   uint8_t *buffer, uint64_t sample_bytes, int32_t *statuses, uint32_t threads);

/** Where one array of every sample of a batch goes. Frozen. */
typedef struct dc_gather {
  uint8_t *buffer; /**< receives the arrays of all samples; may be NULL where they have no bytes */
  /** NULL: the array has sample_bytes bytes in each sample, and sample i goes to buffer + i * sample_bytes. Else, for
   *  samples of different size, count + 1 numbers, from 0 on and never falling: sample i goes to buffer + offsets[i]
   *  and has offsets[i + 1] - offsets[i] bytes. */
  const int64_t *offsets;
  uint64_t sample_bytes; /**< the array's length where offsets is NULL; else 0 */
  uint32_t number;       /**< which array of each sample: 0..63 */
  uint32_t reserved;     /**< 0 */
} dc_gather;

/** Copies several arrays of many samples in one pass.
 *
 *  The lengths of all parts are compared before the first is copied, so a sample whose status is not DC_OK leaves all
 *  of its places as they were; the others are copied nevertheless. All arrays of a sample are of one fill, also where
 *  samples are dropped and filled again meanwhile.
 *
 *  @param indices     `count` indices, in any order, repeats allowed
 *  @param count       samples, 0..2^31-1
 *  @param parts       `part_count` places, in any order of arrays; their memory must not overlap
 *  @param part_count  1..64
 *  @param statuses    optional; receives for each sample DC_OK, DC_MISS, DC_ERROR_RANGE, DC_ERROR_RECORD where an array
 *                     has another length or there is none of this number, or DC_ERROR_NO_MEMORY where a read-only
 *                     client of a droppable cache, which looks at copies, has none for one
 *  @param threads     native threads to copy with, the caller's among them: 1..64; 0 is 1. No more are used than the
 *                     batch has megabytes, since starting one takes as long as copying some hundred kilobytes
 *  @return DC_OK where every sample is; else the first status that is not, errors before DC_MISS. DC_ERROR_ARGUMENT;
 *          DC_ERROR_RANGE for a count, number, offset, threads or total size out of range; DC_ERROR_NO_MEMORY: nothing
 *          copied, `statuses` as it was. Never blocks. @since 0.1 */
DC_API int32_t dc_cache_gather(dc_cache *cache, const int64_t *indices, int64_t count, const dc_gather *parts,
                               uint32_t part_count, int32_t *statuses, uint32_t threads);

/* ---- Describing: what a caller needs to make room for a batch. ----
 *
 * No look is counted as a hit or miss. In a cache with DC_CHECKSUMS_READ each reads the whole sample, as a hit does. */

/** What one array of each of many samples is.
 *
 *  @param indices       `count` indices, in any order, repeats allowed
 *  @param count         samples, 0..2^31-1
 *  @param number        which array of each sample: 0..63
 *  @param descriptions  optional; `count` arrays, of which each receives shape, dtype, name and bytes; its `data` is
 *                       NULL: nothing is held. Left as it was where the sample's status is not DC_OK
 *  @param array_counts  optional; receives how many arrays each sample has, 1..64, also where it lacks this one; 0 for
 *                       one that is not in the cache
 *  @param structures    optional; receives a 64-bit hash of each sample's structure string, by which samples can be
 *                       compared; 0 where it has none or is not in the cache
 *  @param statuses      optional; receives for each sample DC_OK, DC_MISS, DC_ERROR_RECORD (no such array) or
 *                       DC_ERROR_RANGE
 *  @return as dc_cache_gather. Never blocks. @since 0.1 */
DC_API int32_t dc_cache_describe_batch(dc_cache *cache, const int64_t *indices, int64_t count, uint32_t number,
                                       dc_array *descriptions, uint32_t *array_counts, uint64_t *structures,
                                       int32_t *statuses);

/** Copies the structure string of a sample, without a NUL.
 *
 *  @param buffer        receives it; may be NULL where buffer_bytes is 0
 *  @param buffer_bytes  its room; DC_STRUCTURE_BYTES_MAX is always enough
 *  @param bytes         receives its length, also with DC_ERROR_BUFFER; 0 where the sample has none
 *  @return DC_OK; DC_MISS; DC_ERROR_BUFFER; DC_ERROR_RANGE; DC_ERROR_ARGUMENT. Never blocks. @since 0.1 */
DC_API int32_t dc_cache_structure(dc_cache *cache, int64_t index, uint8_t *buffer, uint64_t buffer_bytes,
                                  uint64_t *bytes);

/* ---- The first pass of a process. ---- */

/** Lets a thread of the library map the samples that are there into this process, while the program goes on.
 *
 *  A process's first look at each page of the cache is a page fault, also where another process has filled it and in
 *  each forked child: a first pass of copies then takes up to twice the time of the next. With a core to spare, the
 *  thread is soon ahead of the reader. It runs at a lower priority and with all signals blocked, and ends when it has
 *  gone over the memory that is in use once (60 ms a GiB); a further call then lets it go over what was added since.
 *  While it runs, a further call does nothing. dc_cache_close ends it. It takes 2 MiB of page tables a GiB, which the
 *  reader would take too. Of a cache on a disk it maps what is in memory, and reads nothing.
 *
 *  A forked child does not have its parent's thread, nor its page tables: it may call this anew.
 *
 *  @return DC_OK; DC_ERROR_SYSTEM where no thread is to be had; DC_ERROR_NO_MEMORY; DC_ERROR_ARGUMENT. Never blocks.
 *          @since 0.1 */
DC_API int32_t dc_cache_populate(dc_cache *cache);

#ifdef __cplusplus
}
#endif

#endif
