/* ddpcache/keys.h: samples that have names instead of numbers.
 *
 * A cache opened with options.keyed = 1 has a key table, which gives any bytes an index of their own: the same for
 * every process, for as long as the cache exists, whatever order keys come in. All other calls then take this index.
 *
 *     int64_t index;
 *     if (dc_cache_intern(cache, (const uint8_t *)"train/0017.png", 14, &index) == DC_OK)
 *       dc_cache_load(cache, index, decode, "train/0017.png", 60000000000, &view);
 *
 * So two data sets, or two choices from one data set, share a cache without being taken for each other, if their keys
 * say which they are. What bytes the other languages make of their keys is in docs/format.md; text is its UTF-8.
 *
 * Keys are known by their XXH3-128 hash and are not kept themselves. Two keys are taken for one only if all 128 bits
 * are the same: with 10^9 keys there is such a pair with a chance of 2 in 10^21. XXH3 is no defence against somebody
 * who makes keys for that purpose: do not take them from strangers.
 *
 * Keys are never forgotten: removing a sample leaves its key, and its index. So `length` bounds how many different keys
 * a cache ever sees. It should be 1.3 times their number: a look at a key that is there then reads 3 places of the
 * table in the mean, and interning a new one 10; at 1.1 times it is 6 and 60; the last key of a table that is full to
 * the end, and any further one, cost a walk through all of it.
 *
 * Any thread may call these functions, also in a forked child and in a process that has lost its registration. They
 * never block. A process killed inside costs nothing but, at worst, one place in the table. */
#ifndef DDPCACHE_KEYS_H
#define DDPCACHE_KEYS_H

#include "ddpcache/cache.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The index of a key, which is given one if it has none. It has no sample yet unless somebody has filled it.
 *
 *  @param key        its bytes; may be NULL where key_bytes is 0, which is a key like any other
 *  @param key_bytes  its length
 *  @param index      receives the index, 0..length-1, where DC_OK is returned
 *  @return DC_OK; DC_FULL where `length` other keys have taken all indices, and for a new key where the cache was
 *          attached read only; DC_ERROR_UNSUPPORTED in a cache that is not keyed; DC_ERROR_ARGUMENT. Never blocks.
 *          @since 0.1 */
DC_API int32_t dc_cache_intern(dc_cache *cache, const uint8_t *key, uint64_t key_bytes, int64_t *index);

/** The index of a key, if it has one. Changes nothing.
 *
 *  @param index  receives the index where DC_OK is returned
 *  @return DC_OK; DC_MISS where nobody has interned the key; DC_ERROR_UNSUPPORTED, DC_ERROR_ARGUMENT as
 *          dc_cache_intern. Never blocks. @since 0.1 */
DC_API int32_t dc_cache_lookup(dc_cache *cache, const uint8_t *key, uint64_t key_bytes, int64_t *index);

/** Looks at the sample of a key: dc_cache_lookup and dc_cache_view in one call. A key without an index counts as a
 *  miss.
 *
 *  @param view  receives the look; holds nothing unless DC_OK is returned
 *  @return DC_OK; DC_MISS; DC_ERROR_UNSUPPORTED, DC_ERROR_ARGUMENT as dc_cache_intern. Never blocks. @since 0.1 */
DC_API int32_t dc_cache_view_key(dc_cache *cache, const uint8_t *key, uint64_t key_bytes, dc_view *view);

#ifdef __cplusplus
}
#endif

#endif
