# The suite for transports, to be linked by a program that registers a back-end (transport_conformance.hpp). A project
# that has trimtab as a subfolder includes this file for a back-end of its own: docs/guides/add-a-transport.md.
find_package(fmt REQUIRED)
find_package(GTest REQUIRED)

add_library(transport_conformance OBJECT EXCLUDE_FROM_ALL
  ${CMAKE_CURRENT_LIST_DIR}/collectives_conformance.cpp
  ${CMAKE_CURRENT_LIST_DIR}/endings_conformance.cpp
  ${CMAKE_CURRENT_LIST_DIR}/ends.cpp
  ${CMAKE_CURRENT_LIST_DIR}/orders_conformance.cpp
  ${CMAKE_CURRENT_LIST_DIR}/process_ranks.cpp
  ${CMAKE_CURRENT_LIST_DIR}/transport_conformance.cpp)
target_link_libraries(transport_conformance PUBLIC trimtab GTest::gtest PRIVATE trimtab_warnings fmt::fmt)
target_include_directories(transport_conformance PUBLIC ${CMAKE_CURRENT_LIST_DIR}/..)

# trimtab_add_conformance_run(BACKEND COMMAND program … [EXPECTED file]): runs the whole suite, fails when a test
# fails or when what was skipped is not what EXPECTED, by default that of this tree, lists for BACKEND.
function(trimtab_add_conformance_run backend)
  cmake_parse_arguments(ARG "" "EXPECTED" "COMMAND;LABELS" ${ARGN})
  if(NOT ARG_EXPECTED)
    set(ARG_EXPECTED ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/expected_skips.txt)
  endif()
  string(REPLACE ";" "\t" command "${ARG_COMMAND}")
  add_test(NAME conformance.run.${backend}
    COMMAND ${CMAKE_COMMAND} "-DBACKEND=${backend}" "-DCOMMAND=${command}"
            -DEXPECTED=${ARG_EXPECTED}
            -P ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/run_and_compare_skips.cmake)
  set_tests_properties(conformance.run.${backend} PROPERTIES LABELS "conformance;${ARG_LABELS}" TIMEOUT 120)
  set(conformance_backends ${conformance_backends} ${backend} PARENT_SCOPE)
endfunction()
