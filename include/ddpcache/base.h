/* ddpcache/base.h: versions, status codes and the error record that all of ddpcache shares.
 *
 * Calling rules, for every function of the library:
 *   - nothing throws, aborts, prints, exits or installs a signal handler;
 *   - a function that can fail returns an int32_t status: 0 is success, a positive value an expected outcome, a
 *     negative value an error. After an error nothing has changed, unless the function says otherwise;
 *   - a null pointer where one is not allowed, or a value out of its stated range, is DC_ERROR_ARGUMENT or
 *     DC_ERROR_RANGE;
 *   - text is UTF-8 and ends in NUL; sizes are in bytes, times in nanoseconds, counts in items;
 *   - structs that start with `struct_size` grow in later versions: initialise them with their `_init` function, or set
 *     `struct_size` to sizeof for an output. Structs without it never change.
 *
 * Threads and processes: the functions of this header may be called by any thread at any time, also in a forked child.
 *
 * The headers use a small subset of C (fixed-width integers, pointers, enums that only name constants) so that SWIG and
 * every other parser reads them alike. C11 and C++17 or later; little-endian 64-bit Linux. */
#ifndef DDPCACHE_BASE_H
#define DDPCACHE_BASE_H

#include <stdint.h>

#ifndef SWIG
#define DC_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Three versions. The library version says what was built; the ABI version changes when a program must be recompiled;
 * the format version (of the bytes in shared memory) when two libraries cannot share a cache. */
#define DC_VERSION_MAJOR 0
#define DC_VERSION_MINOR 1
#define DC_VERSION_PATCH 0
#define DC_ABI_VERSION 1
#define DC_FORMAT_VERSION 3

/** What a call came to. Numbers are fixed for ever; gaps are room for relatives. */
enum dc_status {
  DC_OK = 0, /**< success */

  /* Expected outcomes. */
  DC_MISS = 1, /**< the index is not in the cache */
  DC_BUSY = 2, /**< another client is filling this index and the deadline has passed: decode for yourself, uncached */
  DC_FULL = 3, /**< there is no room for this sample: use your own copy, it cannot be cached */
  DC_END = 4,  /**< no further element */
  DC_INTERRUPTED = 5, /**< a signal arrived while waiting: handle it and call again */
  DC_PRESENT = 6,     /**< the index is in the cache already: there is nothing to fill */

  /* Errors of any call. */
  DC_ERROR_ARGUMENT = -1,    /**< a null pointer or a value that contradicts another */
  DC_ERROR_RANGE = -2,       /**< an index, position or size outside its range */
  DC_ERROR_NO_MEMORY = -3,   /**< the process is out of memory */
  DC_ERROR_SYSTEM = -4,      /**< a system call failed; the message names it and its reason */
  DC_ERROR_INTERNAL = -5,    /**< a defect of ddpcache itself: please report it */
  DC_ERROR_UNSUPPORTED = -6, /**< this platform, file system or option cannot do it */
  DC_ERROR_STATE = -7,       /**< the object is not in a state that allows the call */

  /* Errors of opening a cache. */
  DC_ERROR_NAME = -20,        /**< the name is not of the allowed form */
  DC_ERROR_NOT_FOUND = -21,   /**< no cache has this name */
  DC_ERROR_MISMATCH = -22,    /**< the cache in use has other options */
  DC_ERROR_FINGERPRINT = -23, /**< the cache in use, or its data, belongs to another data set, version or transform */
  DC_ERROR_FORMAT = -24,      /**< the file has another format version or layout */
  DC_ERROR_DAMAGED = -25,     /**< the file is not a sound cache */
  DC_ERROR_PERMISSION = -26,  /**< the file is not the user's own, or is no regular file */
  DC_ERROR_NO_SPACE = -27,    /**< too little memory or file-system space; the message says what is there and needed */
  DC_ERROR_CLIENTS = -28,     /**< the cache's client table is full */
  DC_ERROR_LOCKED = -29,      /**< the user's lock file was held until the deadline; the message says by whom */

  /* Errors of filling and reading. */
  DC_ERROR_TOO_LARGE = -40,    /**< a sample larger than sample_bytes_max, or more than its fill's memory */
  DC_ERROR_LOADER = -41,       /**< the loader did not return DC_LOADED: its fill was aborted */
  DC_ERROR_RECURSION = -42,    /**< the calling thread is already filling this index */
  DC_ERROR_LOST = -43,         /**< the fill's entry was taken over: what was written is discarded */
  DC_ERROR_FILLS = -44,        /**< the client has as many open fills as it may have */
  DC_ERROR_RECORD = -45,       /**< the sample's arrays are not what the call needs */
  DC_ERROR_BUFFER = -46,       /**< the buffer is too small; the needed size was stored */
  DC_ERROR_THREAD = -47,       /**< a fill was used on another thread than the one that began it */
  DC_ERROR_UNREGISTERED = -48, /**< this process lost its lock (it closed every descriptor): it can read, not fill */

  /* Errors of the sampler. */
  DC_ERROR_TOPOLOGY = -60,     /**< the launcher's variables contradict each other or leave the layout unknown */
  DC_ERROR_EMPTY = -61,        /**< the tail DROP leaves no sample for any rank */
  DC_ERROR_SAMPLER_STATE = -62 /**< a saved sampler state that is damaged, or of another version or sampler */
};

/** The value that a loader returns when it has filled its sample; any other value aborts the fill. */
#define DC_LOADED 0x44434C44

/** A full sentence about an error, with the actual values. Frozen: never grows.
 *
 *  Owned by the caller; a function that takes one writes it only when it returns an error, and accepts NULL. */
typedef struct dc_error {
  int32_t status;     /**< the status that the call returned */
  uint32_t reserved;  /**< 0 */
  char message[1016]; /**< ends in NUL; cut at a character boundary if it would be longer */
} dc_error;

/** The library's version, such as "0.1.0". Static text. @since 0.1 */
DC_API const char *dc_version(void);

/** The ABI version that the loaded library implements. A binding compares it with DC_ABI_VERSION before its first other
 *  call and refuses to go on when they differ. @since 0.1 */
DC_API int32_t dc_abi_version(void);

/** What a status means, in one fixed sentence; never NULL, also for an unknown number. Static text. @since 0.1 */
DC_API const char *dc_strerror(int32_t status);

#ifdef __cplusplus
}
#endif

#endif
