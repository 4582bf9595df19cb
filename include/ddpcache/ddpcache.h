/* ddpcache/ddpcache.h: everything. A cache of decoded samples per machine, and the sampler that makes it hit. */
#ifndef DDPCACHE_DDPCACHE_H
#define DDPCACHE_DDPCACHE_H

#include "ddpcache/base.h"
#include "ddpcache/batch.h"
#include "ddpcache/cache.h"
#include "ddpcache/keys.h"
#include "ddpcache/report.h"
#include "ddpcache/sampler.h"
#include "ddpcache/saving.h"

#endif
