# Runs COMMAND (tab-separated), the whole suite of BACKEND; fails when it fails, when it ran no test, or when the
# tests that it skipped are not exactly those that EXPECTED lists for BACKEND.
string(REPLACE "\t" ";" command "${COMMAND}")
execute_process(COMMAND ${command} --gtest_color=no
  RESULT_VARIABLE exit_code OUTPUT_VARIABLE output ERROR_VARIABLE errors)
message("${output}${errors}")
if(NOT exit_code EQUAL 0)
  message(FATAL_ERROR "${BACKEND}: exit code ${exit_code}")
endif()
string(REGEX REPLACE "[][;]" "" output "${output}")  # they mean something to CMake's lists
if(NOT output MATCHES "PASSED +[1-9]")
  message(FATAL_ERROR "${BACKEND}: no test ran")
endif()

string(REGEX MATCHALL "SKIPPED +[^ \n]+ +\\(" lines "${output}")
set(skipped "")
foreach(line IN LISTS lines)
  string(REGEX REPLACE "SKIPPED +([^ ]+) .*" "\\1" test "${line}")
  list(APPEND skipped ${test})
endforeach()

file(STRINGS ${EXPECTED} lines REGEX "^skip +${BACKEND} ")
set(expected "")
foreach(line IN LISTS lines)
  string(REGEX REPLACE "^skip +[^ ]+ +([^ ]+).*" "\\1" test "${line}")
  list(APPEND expected ${test})
endforeach()

list(SORT skipped)
list(SORT expected)
if(NOT skipped STREQUAL expected)
  string(REPLACE ";" "\n  " skipped "${skipped}")
  string(REPLACE ";" "\n  " expected "${expected}")
  message(FATAL_ERROR "${BACKEND} skipped\n  ${skipped}\nbut ${EXPECTED} expects\n  ${expected}")
endif()
list(LENGTH skipped num_skipped)
message("${BACKEND}: ${num_skipped} tests skipped, as expected")
