/* Calls that say how far they have come: dc_progress as a Python callable. */
#ifndef DDPCACHE_SWIG_PROGRESS_H
#define DDPCACHE_SWIG_PROGRESS_H

#include "module.h"

typedef struct dcpy_progress {
  PyObject *callable; /* borrowed; NULL where the caller wants to hear nothing */
  PyThreadState *thread;
} dcpy_progress;

/* None, or a callable. 0, or -1 with an exception. */
int dcpy_progress_of(PyObject *object, dcpy_progress *progress);

/* A dc_progress whose `user` is a dcpy_progress. It also looks for signals, so that Ctrl-C works without a callable. An
 * exception of either stays set, and stops the call. */
int32_t dcpy_progress_call(uint64_t done, uint64_t total, void *user);

#endif
