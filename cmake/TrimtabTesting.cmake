find_package(fmt REQUIRED)
find_package(GTest REQUIRED)
include(GoogleTest)

# trimtab_add_test(NAME SOURCES a_test.cpp … [LIBRARIES lib …] [LABELS label …])
# One program per module; each TEST becomes a ctest test "NAME.Suite.Test".
function(trimtab_add_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE trimtab trimtab_warnings fmt::fmt GTest::gtest_main ${ARG_LIBRARIES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR}/src)
  gtest_discover_tests(${name} TEST_PREFIX "${name}." DISCOVERY_TIMEOUT 60 PROPERTIES LABELS "${ARG_LABELS}")
endfunction()
