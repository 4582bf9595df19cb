/* ddpcache/report.h: what a cache is, what it has counted, and whether it is sound. */
#ifndef DDPCACHE_REPORT_H
#define DDPCACHE_REPORT_H

#include "ddpcache/cache.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What a cache is. Set struct_size to sizeof(dc_cache_info) before the call. */
typedef struct dc_cache_info {
  uint32_t struct_size;
  uint32_t format_version;
  int64_t length;
  uint64_t capacity_bytes;   /**< of the arena: all that can hold samples */
  uint64_t sample_bytes;     /**< as created; 0: any size */
  uint64_t sample_bytes_max; /**< largest sample, the creator's 0 resolved */
  uint64_t step_bytes;       /**< the unit in which memory is reserved */
  uint64_t steps;            /**< units in all */
  uint64_t file_bytes;       /**< apparent size of the file */
  uint64_t control_bytes;    /**< what header, client records and entries take */
  uint64_t job_id;           /**< the creator's */
  int64_t created_unix_ns;   /**< when it was made */
  int32_t creator_pid;       /**< in the creator's PID namespace */
  uint32_t clients_max;
  uint32_t clients_attached; /**< that live, as far as anyone has noticed */
  uint32_t created;          /**< 1: this handle made the cache */
  uint32_t adopted;          /**< 1: it was there already and nobody was attached to it */
  uint32_t droppable;        /**< 1: samples can be removed */
  uint32_t keep;             /**< 1: it stays when the last client leaves */
  uint32_t keyed;            /**< 1: samples have keys */
  char uuid[40];             /**< 36 characters */
  char name[208];
  char fingerprint[1032];
  uint64_t keys; /**< keys that have an index, as counted: a kill may have cost a count, and dc_cache_check is exact */
  uint32_t checksums; /**< enum dc_checksums */
  uint32_t read_only; /**< 1: this handle was attached by dc_cache_attach_read_only */
  /** The largest page that maps samples in this process now where the cache was made with huge_pages (asking costs some
   *  10 ms a GiB that the process has mapped in small pages); else the page size of the file system. */
  uint64_t page_bytes;
  uint32_t numa_nodes; /**< over which samples are spread; 1: not spread, as the kernel places what is first written */
  uint32_t reserved;   /**< 0 */
} dc_cache_info;

/** Describes the cache. DC_OK; DC_ERROR_ARGUMENT. Never blocks. @since 0.1 */
DC_API int32_t dc_cache_info_get(dc_cache *cache, dc_cache_info *info);

/** Whose counts dc_cache_stats_get returns. */
enum dc_stats_scope {
  DC_STATS_CACHE = 0, /**< of all clients since the cache was made */
  DC_STATS_CLIENT = 1 /**< of this process since it attached */
};

/** Counts of a cache. Set struct_size to sizeof(dc_cache_stats) before the call. Counts of a moment ago may be missing;
 *  none is invented. */
typedef struct dc_cache_stats {
  uint32_t struct_size;
  uint32_t open_fills;   /**< claimed and neither committed nor aborted, over all clients */
  uint64_t hits;         /**< samples found */
  uint64_t misses;       /**< samples not found */
  uint64_t fills;        /**< samples stored */
  uint64_t aborts;       /**< fills given up, failed loaders included */
  uint64_t waits;        /**< times that a caller waited for another filler */
  uint64_t timeouts;     /**< calls that ended in DC_BUSY */
  uint64_t bypasses;     /**< loads that were decoded without being cached: DC_FULL */
  uint64_t removed;      /**< samples removed */
  uint64_t takeovers;    /**< unfinished fills taken from dead clients */
  uint64_t bytes_filled; /**< stored, array data only */
  uint64_t bytes_copied; /**< copied out by read, read_batch and gather */
  /** Samples in the cache now, as counted: a kill may have cost a count, and dc_cache_residency is exact. In both
   *  scopes. */
  uint64_t resident;
  uint64_t reserved_bytes;    /**< memory taken from the file system now; the same in both scopes */
  int64_t oldest_fill_age_ns; /**< of the open fills; 0 where there is none; the same in both scopes */
  uint64_t damaged;           /**< samples given up because their record, or its checksum, was not what it must be */
} dc_cache_stats;

/** Reads the counts. DC_OK; DC_ERROR_ARGUMENT; DC_ERROR_RANGE for the scope. Never blocks. @since 0.1 */
DC_API int32_t dc_cache_stats_get(dc_cache *cache, int32_t scope, dc_cache_stats *stats);

/** What dc_cache_check found. Set struct_size to sizeof(dc_cache_report) before the call. */
typedef struct dc_cache_report {
  uint32_t struct_size;
  uint32_t clients;          /**< client records in use */
  uint64_t entries_ready;    /**< samples stored */
  uint64_t entries_writing;  /**< fills under way */
  uint64_t entries_orphaned; /**< fills of dead clients, to be taken over by the next caller */
  uint64_t entries_bad;      /**< entries given up because their record was not sound */
  uint64_t extents_owned;    /**< pieces of memory that an entry holds */
  uint64_t extents_free;     /**< pieces of memory that the next fill may have, in steps already reserved */
  uint64_t extents_named;    /**< pieces that no entry holds but a client still names */
  uint64_t steps_reserved;   /**< units of memory in use */
  uint64_t violations;       /**< broken invariants: 0 in a sound cache */
  uint64_t keys;             /**< keys that have an index */
  uint64_t keys_unfinished;  /**< slots whose key is being written, or was when its process died: no damage */
  /** of entries_ready: on a disk that was not closed before the machine stopped, and not looked at since; each is
   *  compared with its checksum at its first use */
  uint64_t entries_unverified;
  uint64_t clients_dead; /**< of clients: ended without leaving, or lost their lock */
  /** The violations, by what is not as the rest of the file says that it must be. */
  uint64_t damaged_header;
  uint64_t damaged_control; /**< what belongs to no client, entry, step or extent */
  uint64_t damaged_clients; /**< records of clients, with what they note and name */
  uint64_t damaged_entries;
  uint64_t damaged_steps;
  uint64_t damaged_extents;
  uint64_t damaged_records; /**< stored samples: their description, or their checksum */
  uint64_t damaged_keys;
} dc_cache_report;

/** Compares all words, records, names and notes of the cache with one another, while others use it and whoever of them
 *  is killed; and every sample that has a checksum with that. Nothing is changed but that clients which have ended are
 *  noted as such. What no rule can be about is not compared: samples without a checksum, whose key a key is, what a
 *  reader looks at, counts, and hints for finding memory.
 *
 *  @param report  optional; receives what was found
 *  @param error   optional; says what is wrong and where: index, step, extent, client, the byte of the file, and the
 *                 values there and expected; of several violations as many as fit
 *  @return DC_OK; DC_ERROR_DAMAGED where an invariant is broken; DC_ERROR_ARGUMENT. Never blocks; takes time in
 *          proportion to entries, clients_max and reserved memory pieces, and with checksums to the bytes of all
 *          samples. A keyed cache takes a dc_cache_lookup of each key besides.
 *          @since 0.1 */
DC_API int32_t dc_cache_check(dc_cache *cache, dc_cache_report *report, dc_error *error);

#ifdef __cplusplus
}
#endif

#endif
