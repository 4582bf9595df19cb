/* How a sample is put together again. A plan is a nested tuple (operation, argument, ...), made once per structure by
 * ddpcache._samples, which takes these numbers from the module. */
#ifndef DDPCACHE_SWIG_PLAN_H
#define DDPCACHE_SWIG_PLAN_H

enum dcpy_operation {
  PLAN_NDARRAY = 0,   /* (array number): a read-only view */
  PLAN_TENSOR = 1,    /* (array number) */
  PLAN_INT = 2,       /* (array number): one int64 */
  PLAN_FLOAT = 3,     /* (array number): one float64 */
  PLAN_COMPLEX = 4,   /* (array number): one complex128 */
  PLAN_BOOL = 5,      /* (array number) */
  PLAN_STR = 6,       /* (array number): UTF-8, lone surrogates as they are */
  PLAN_BYTES = 7,     /* (array number) */
  PLAN_NUMPY = 8,     /* (array number): a NumPy scalar */
  PLAN_NUMBERS = 9,   /* (array number): a list of Python numbers of one type */
  PLAN_CONSTANT = 10, /* (object): itself */
  PLAN_LIST = 11,     /* (plans) */
  PLAN_CALL = 12,     /* (plans, callable): the callable applied to the list of values */
  PLAN_TUPLE = 13,    /* (plans) */
  PLAN_DICT = 14,     /* (plans, keys) */
  PLAN_PACKED = 15    /* (array number): a structure kept as an array, with the small values in it */
};

#define DCPY_PLAN_NAMES                                                                                             \
  {                                                                                                                 \
    "PLAN_NDARRAY", "PLAN_TENSOR", "PLAN_INT", "PLAN_FLOAT", "PLAN_COMPLEX", "PLAN_BOOL", "PLAN_STR", "PLAN_BYTES", \
        "PLAN_NUMPY", "PLAN_NUMBERS", "PLAN_CONSTANT", "PLAN_LIST", "PLAN_CALL", "PLAN_TUPLE", "PLAN_DICT",         \
        "PLAN_PACKED"                                                                                               \
  }

#endif
