// ddpcache/ddpcache.hpp: the C interface as C++17 objects. Header only; link the same library.
//
// What the C headers say of threads, processes, blocking and errors holds here too. Every object owns its handle, moves
// and does not copy. A status below zero is thrown as ddpcache::Error with the library's sentence; expected outcomes
// are values (an empty optional, a bool) or exceptions of their own (Full, Busy). Without exceptions (-fno-exceptions)
// use the forms named try_...: see error.hpp.
//
//     ddpcache::CacheOptions options(60000);
//     ddpcache::Cache cache("digits", "digits v1", options);
//     ddpcache::View view = cache.load(index, [](ddpcache::Filling &filling, std::int64_t index) {
//       std::uint8_t *pixels = filling.allocate<std::uint8_t>({8, 8});
//       decode(index, pixels);
//     });
//     use(view.array(0).values<std::uint8_t>());
#ifndef DDPCACHE_DDPCACHE_HPP
#define DDPCACHE_DDPCACHE_HPP

#include "ddpcache/cache.hpp"
#include "ddpcache/ddpcache.h"
#include "ddpcache/error.hpp"
#include "ddpcache/sample.hpp"
#include "ddpcache/sampler.hpp"

#endif
