# What the library is built with: Threads::Threads, and the target traceml_cjson for cJSON, found by its CMake package or,
# where that is missing, by pkg-config. Both look below CMAKE_PREFIX_PATH too.
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

add_library(traceml_cjson INTERFACE)
find_package(cJSON CONFIG QUIET)
if(TARGET cjson)
    target_link_libraries(traceml_cjson INTERFACE cjson)
else()
    find_package(PkgConfig QUIET)
    if(PkgConfig_FOUND)
        pkg_check_modules(cjson QUIET IMPORTED_TARGET GLOBAL libcjson)
    endif()
    if(NOT TARGET PkgConfig::cjson)
        message(FATAL_ERROR "cJSON not found: apt-get install libcjson-dev (Fedora: cjson-devel), or name its prefix in "
            "CMAKE_PREFIX_PATH")
    endif()
    target_link_libraries(traceml_cjson INTERFACE PkgConfig::cjson)
endif()
