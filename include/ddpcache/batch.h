/* ddpcache/batch.h: many samples of a cache at once, copied out. */
#ifndef DDPCACHE_BATCH_H
#define DDPCACHE_BATCH_H

#include "ddpcache/cache.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Which samples of a range are in the cache.
 *
 *  @param first   0..length
 *  @param count   entries to look at, first + count <= length
 *  @param bitmap  receives ceil(count/8) bytes; bit i%8 of byte i/8 is entry first+i; spare bits are 0
 *  @return DC_OK; DC_ERROR_RANGE; DC_ERROR_ARGUMENT. Never blocks; each bit is true at some moment of the call.
 *  @since 0.1 */
DC_API int32_t dc_cache_residency(dc_cache *cache, int64_t first, int64_t count, uint8_t *bitmap);

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

/** Copies the same array of many samples of equal size into one buffer, one after the other.
 *
 *  @param indices       `count` indices, in any order, repeats allowed
 *  @param count         samples, 0..2^31-1
 *  @param number        which array of each sample: 0..63
 *  @param buffer        count * sample_bytes bytes; sample i begins at i * sample_bytes
 *  @param sample_bytes  the length that each array must have
 *  @param statuses      optional; receives for each sample DC_OK, DC_MISS, DC_ERROR_RECORD (another length, or no such
 *                       array) or DC_ERROR_RANGE; a sample that is not DC_OK leaves its place in the buffer as it was
 *  @param threads       native threads to copy with, 1..64; 0 is 1. They end with the call.
 *  @return DC_OK where every sample is; else the first status that is not, errors before DC_MISS. DC_ERROR_ARGUMENT,
 *          and DC_ERROR_RANGE for a count, number, threads or total size out of range: nothing copied, `statuses` as it
 *          was. Never blocks. @since 0.1 */
DC_API int32_t dc_cache_read_batch(dc_cache *cache, const int64_t *indices, int64_t count, uint32_t number,
                                   uint8_t *buffer, uint64_t sample_bytes, int32_t *statuses, uint32_t threads);

#ifdef __cplusplus
}
#endif

#endif
