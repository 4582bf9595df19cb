/* Samples as Python sees them without a copy: NumPy arrays and torch tensors over the cache's own read-only memory. */
#ifndef DDPCACHE_SWIG_VIEW_H
#define DDPCACHE_SWIG_VIEW_H

#include "module.h"

/* What keeps one sample's memory. Every array and tensor made of the sample has a share; the last one to go, on
 * whatever thread and with or without the GIL, ends the view. */
typedef struct dcpy_hold dcpy_hold;

/* Takes the view over: it is released with the last share, or at once where this fails for lack of memory (NULL, with
 * MemoryError set). The caller has the first share. */
dcpy_hold *dcpy_hold_new(dc_view *view);
void dcpy_hold_share(dcpy_hold *hold);
void dcpy_hold_drop(dcpy_hold *hold);
const dc_view *dcpy_hold_view(const dcpy_hold *hold);

/* A read-only ndarray over one array of the sample. */
PyObject *dcpy_ndarray_new(dcpy_hold *hold, uint32_t number, const dc_array *array);

/* A torch tensor over one array of the sample; where `copy` is set, a private copy of it. */
PyObject *dcpy_tensor_new(dcpy_hold *hold, const dc_array *array, int copy);

/* The sample as the user stored it. Takes the view over. `as_views`: tensors are views too. */
PyObject *dcpy_sample_new(dc_view *view, int as_views);

int dcpy_view_register(PyObject *module);

#endif
