# Builds and installs the library alone, then configures, builds and runs the consumer against what was installed.
function(run)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\nended with ${status}:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK}/prefix ${WORK}/consumer)  # the library's build folder is kept: it is only a cache
run(${CMAKE_COMMAND} -S ${SOURCE} -B ${LIBRARY} -G ${GENERATOR}
  -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_BUILD_TYPE=${BUILD_TYPE} -DBUILD_SHARED_LIBS=${SHARED}
  -DTRIMTAB_ENABLE_MPI=${ENABLE_MPI}
  -DTRIMTAB_BUILD_APP=OFF -DTRIMTAB_BUILD_TESTS=OFF -DTRIMTAB_BUILD_BENCH=OFF)
run(${CMAKE_COMMAND} --build ${LIBRARY} --parallel 2)
run(${CMAKE_COMMAND} --install ${LIBRARY} --prefix ${WORK}/prefix)

# The program on README's first screen is a user's program too.
file(READ ${SOURCE}/README.md readme)
string(FIND "${readme}" "```cpp\n" begin)
string(SUBSTRING "${readme}" ${begin} -1 readme)
string(FIND "${readme}" "\n```\n" length)
math(EXPR length "${length} - 7")
string(SUBSTRING "${readme}" 7 ${length} program)
file(WRITE ${WORK}/readme.cpp "${program}")

run(${CMAKE_COMMAND} -S ${SOURCE}/tests/install/consumer -B ${WORK}/consumer -G ${GENERATOR}
  -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_BUILD_TYPE=${BUILD_TYPE} -DCMAKE_PREFIX_PATH=${WORK}/prefix
  -DEXPECTED_VERSION=${VERSION} -DREADME_PROGRAM=${WORK}/readme.cpp)
run(${CMAKE_COMMAND} --build ${WORK}/consumer)
run(${WORK}/consumer/consumer)

# Two ranks of two slots, loads 6 2 1 3: the identity placement gives ranks 8 and 4.
if(NOT output MATCHES "imbalance 1\\.3333, balancedness 0\\.7500")
  message(FATAL_ERROR "the consumer printed: ${output}")
endif()
run(${WORK}/consumer/readme)
if(NOT output MATCHES "imbalance [0-9.]+ -> [0-9.]+, bound [0-9.]+")
  message(FATAL_ERROR "README's program printed: ${output}")
endif()

# Every header came along.
file(GLOB_RECURSE ours RELATIVE ${SOURCE}/include ${SOURCE}/include/*.hpp)
file(GLOB_RECURSE installed RELATIVE ${WORK}/prefix/include ${WORK}/prefix/include/*)
if(NOT ours STREQUAL installed)
  message(FATAL_ERROR "installed headers differ from those of the tree: ${installed}")
endif()
