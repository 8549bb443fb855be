option(TRIMTAB_BUILD_APP "Build the command line and the reference runtime it runs" ${PROJECT_IS_TOP_LEVEL})
option(TRIMTAB_BUILD_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(TRIMTAB_BUILD_BENCH "Build the benchmarks" ${PROJECT_IS_TOP_LEVEL})
option(TRIMTAB_FUZZ "Build the fuzzers alone; needs clang with libFuzzer" OFF)
set(TRIMTAB_SANITIZE "" CACHE STRING "Sanitizers for everything that is compiled, as in -fsanitize=")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND PROJECT_IS_TOP_LEVEL)
  # Relative paths, so that another clone or work tree of the same sources finds the same objects.
  set(CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=true ${CCACHE_PROGRAM})
endif()

# What every target of ours is compiled with; never exported.
add_library(trimtab_warnings INTERFACE)
target_compile_options(trimtab_warnings INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Wshadow)
if(PROJECT_IS_TOP_LEVEL)
  target_compile_options(trimtab_warnings INTERFACE -Werror)
endif()
if(TRIMTAB_SANITIZE)
  add_compile_options(-fsanitize=${TRIMTAB_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${TRIMTAB_SANITIZE})
endif()
