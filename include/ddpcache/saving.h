/* ddpcache/saving.h: a cache to a file and back, so that a run next week starts warm.
 *
 *     dc_cache_save(cache, "/data/digits.cache", NULL, NULL, NULL, &error);
 *
 *     dc_cache *cache;
 *     dc_cache_restore("/data/digits.cache", "digits", NULL, "digits v1", NULL, NULL, NULL, &cache, &error);
 *
 * The file holds the samples, and the keys of a keyed cache, in a format of its own, which does not depend on how the
 * cache lay in memory: it can be read on another machine, and by later versions of the library. Any file system will
 * do, network file systems included. Every byte of it is under a checksum.
 *
 * A saved file is whole or not there: it gets its name when it is complete and synced to disk, in place of what had the
 * name before. So is a restored cache: it gets its name when every byte has been read and compared. A call that fails,
 * is stopped or whose process is killed leaves what was there before, and nothing else; at worst, on a file system
 * without unnamed files such as NFS, a hidden file `.ddpcache-saving-*` that the next save into the directory removes.
 *
 * Trust. Whatever is in a file, restoring it gives an error or a sound cache. But checksums are no signatures: who can
 *   write the file decides what the samples are. The file is made with mode 0666 less the umask, as any other, while
 *   the cache itself is its user's only: set the umask where the data are private. */
#ifndef DDPCACHE_SAVING_H
#define DDPCACHE_SAVING_H

#include "ddpcache/cache.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Hears how far a save or a restore has come, and may stop it.
 *
 *  Called on the calling thread, with no lock held: at the start, then about ten times a second, or every 64 MiB where
 *  that is more often, and at the end, when `done_bytes` is `total_bytes` and the file or the cache has not got its
 *  name yet; but not at the end of a restore that finds the cache there. While another process restores the cache it
 *  is called with that one's progress. It may use any cache; while a cache is restored its thread may have a fill open,
 *  so that a sample that another client is filling is DC_BUSY at once.
 *  It may fork; in the child the call, if progress returns there, is DC_ERROR_STATE, and the parent's goes on.
 *
 *  @param done_bytes   so far
 *  @param total_bytes  of the whole; while a cache is saved this is an estimate, and may change from call to call
 *  @param user         what was given to the call
 *  @return 0 to go on; anything else stops the call, which returns DC_INTERRUPTED */
typedef int32_t (*dc_progress)(uint64_t done_bytes, uint64_t total_bytes, void *user);

/** Writes every sample that is in the cache to a file.
 *
 *  Others may fill, read and remove meanwhile: a sample that was there during the whole call is saved, one that came or
 *  went may be. A sample whose own checksum shows that it is damaged is left out. Nothing is counted as a hit.
 *
 *  @param path      the file; one that is there is replaced, of a symbolic link what it leads to
 *  @param progress  optional; see dc_progress
 *  @param user      handed to progress
 *  @param saved     optional; receives the number of samples
 *  @param error     optional
 *  @return DC_OK; DC_INTERRUPTED where progress stopped it; DC_ERROR_NO_SPACE with what is needed and what is free;
 *          DC_ERROR_ARGUMENT for a path that leads to a directory, a device or the like; DC_ERROR_UNREGISTERED in a
 *          process that lost its registration and so cannot read a droppable cache; DC_ERROR_SYSTEM with the call and
 *          the reason; DC_ERROR_NO_MEMORY.
 *  Blocks for as long as reading the samples and writing them to disk takes. Needs 4 MiB of memory; in a keyed cache 2
 *  bits an entry more; of a droppable cache that was attached read only, room for its largest sample. A signal does no
 *  harm, and does not interrupt it. @since 0.1 */
DC_API int32_t dc_cache_save(dc_cache *cache, const char *path, dc_progress progress, void *user, int64_t *saved,
                             dc_error *error);

/** Opens a cache with the samples of a saved file: creates it, or attaches to the one that is there.
 *
 *  All processes of a job can make the same call at once: exactly one reads the file, the others wait for it and then
 *  attach. A cache of this name that is in use is attached to, whatever it holds, if it has the same identity (options
 *  and fingerprint), and is an error otherwise. One that no process uses (kept, or left by a crash) is used again if
 *  its identity is the same, it has a fingerprint and at least as many samples as the file, as counted. Otherwise one
 *  that is kept is replaced when the restored one is complete, so that for a while there must be room for both; what a
 *  crash left may go at once. Where info says `created`, this call has read the file.
 *
 *  The restored cache is as any other. It has the options given here; where one is 0 (of `options` NULL: each) the
 *  saved cache's length, capacity, sample_bytes and sample_bytes_max. With the saved capacity there is always room for
 *  all its samples: it is raised a little where they need it.
 *
 *  @param path         the saved file
 *  @param name         of the cache; need not be what it was
 *  @param directory    NULL for shared memory, or as for dc_cache_open
 *  @param fingerprint  what the data must be; NULL: whatever the file says. The cache has the file's
 *  @param options      optional; what the cache shall be. NULL: what was saved, not kept, with the defaults otherwise.
 *                      timeout_ns: how long another process that is restoring the cache may make no progress, besides
 *                      what it is for dc_cache_open
 *  @param progress     optional; see dc_progress
 *  @param user         handed to progress
 *  @param cache        receives the handle, which the caller closes with dc_cache_close
 *  @param error        optional
 *  @return DC_OK; DC_INTERRUPTED where progress stopped it; DC_ERROR_FINGERPRINT with both; DC_ERROR_DAMAGED with what
 *          is wrong with the file and where; DC_ERROR_FORMAT for a file of another version; DC_ERROR_NOT_FOUND;
 *          DC_ERROR_MISMATCH with both values where the options, or those of the cache in use, do not agree with the
 *          file; DC_ERROR_NO_SPACE where machine or capacity have too little room for the samples; DC_ERROR_TOO_LARGE
 *          where sample_bytes_max is too small for one; DC_ERROR_LOCKED with how far the other had come; and as
 *          dc_cache_open.
 *  Blocks for as long as reading the file takes, here or in the process that does it. Needs little memory beside the
 *  cache. A signal does no harm; one that arrives while it waits makes it call progress at once. @since 0.1 */
DC_API int32_t dc_cache_restore(const char *path, const char *name, const char *directory, const char *fingerprint,
                                const dc_cache_options *options, dc_progress progress, void *user, dc_cache **cache,
                                dc_error *error);

/** What is in a saved file. Set struct_size to sizeof(dc_saved_info) before the call. */
typedef struct dc_saved_info {
  uint32_t struct_size;
  uint32_t version;      /**< of the file's format */
  int64_t length;        /**< entries of the cache that was saved */
  int64_t samples;       /**< that are in the file */
  uint64_t sample_bytes; /**< as in dc_cache_info, and so the next two */
  uint64_t sample_bytes_max;
  uint64_t capacity_bytes;
  uint64_t record_bytes;  /**< of all samples as stored */
  uint64_t largest_bytes; /**< of the largest sample as stored */
  uint64_t file_bytes;    /**< of the file */
  int64_t saved_unix_ns;  /**< when it was saved */
  uint32_t droppable;
  uint32_t keyed;
  uint64_t keys;    /**< that have an index */
  char library[24]; /**< version of the library that saved it */
  char uuid[40];    /**< of the cache that was saved */
  char name[208];   /**< and its name */
  char fingerprint[1032];
} dc_saved_info;

/** Describes a saved file by its header: what follows that is neither read nor compared.
 *
 *  @param path   the file
 *  @param info   receives the description
 *  @param error  optional
 *  @return DC_OK; DC_ERROR_NOT_FOUND; DC_ERROR_DAMAGED, DC_ERROR_FORMAT, DC_ERROR_ARGUMENT for a file that is no saved
 *          cache, or not a whole one; DC_ERROR_SYSTEM. Blocks for as long as the file system takes. @since 0.1 */
DC_API int32_t dc_saved_info_get(const char *path, dc_saved_info *info, dc_error *error);

#ifdef __cplusplus
}
#endif

#endif
