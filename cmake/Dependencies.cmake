# What the library itself is made of: headers only, so that a built library needs nothing but the C library.
list(PREPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR})

# A required package, with an error that says which Debian package brings it.
macro(ddpcache_require package debian_package)
  find_package(${package} ${ARGN} QUIET)
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR "ddpcache needs ${package}. On Debian and Ubuntu: apt-get install ${debian_package}. "
                        "Elsewhere set CMAKE_PREFIX_PATH to where it is. `tests/setup` installs all that is missing.")
  endif()
endmacro()

find_package(Threads REQUIRED)
ddpcache_require(Boost libboost-dev 1.74 CONFIG)
ddpcache_require(xxHash libxxhash-dev 0.8)
