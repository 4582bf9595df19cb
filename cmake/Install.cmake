# `cmake --install`: headers, both libraries, the pkg-config file and the CMake package. Everything finds its way from
# where it lies, so that an installed tree can be moved.
include(CMakePackageConfigHelpers)
set(package_directory ${CMAKE_INSTALL_LIBDIR}/cmake/ddpcache)

install(DIRECTORY include/ddpcache DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
        FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(TARGETS ddpcache ddpcache_static EXPORT ddpcacheTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT ddpcacheTargets NAMESPACE ddpcache:: DESTINATION ${package_directory} COMPONENT development)

configure_package_config_file(cmake/ddpcacheConfig.cmake.in ${PROJECT_BINARY_DIR}/ddpcacheConfig.cmake
                              INSTALL_DESTINATION ${package_directory})
# Before 1.0 a new minor version may break its users.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ddpcacheConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ddpcacheConfig.cmake ${PROJECT_BINARY_DIR}/ddpcacheConfigVersion.cmake
        DESTINATION ${package_directory} COMPONENT development)

file(RELATIVE_PATH PC_PREFIX_FROM_PCFILEDIR ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" PC_PREFIX_FROM_PCFILEDIR "${PC_PREFIX_FROM_PCFILEDIR}")
configure_file(pkgconfig/ddpcache.pc.in ${PROJECT_BINARY_DIR}/ddpcache.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/ddpcache.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)

# In the Python package the library lies beside the module.
if(DDPCACHE_PYTHON)
  install(TARGETS ddpcache LIBRARY DESTINATION ddpcache COMPONENT python NAMELINK_SKIP)
endif()
